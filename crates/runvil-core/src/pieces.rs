//! The JSON of a request, as stretches of the records' text and a few fixed pieces between them.

use std::collections::VecDeque;
use std::iter::{Peekable, Take};
use std::sync::Arc;

use crate::compose::{empties_vanish, joins, separator};
use crate::record::Record;
use crate::role::Role;
use crate::sequence::{Iter, Sequence};
use crate::wire::{self, Form};

/// The content of an assistant message that has tool calls and no text. Servers differ in which one they accept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum EmptyContent {
    /// An empty text.
    #[default]
    Text,
    /// Null.
    Null,
}

/// A stretch of a text.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Span<'a> {
    text: &'a str,
    start: usize,
    end: usize,
    /// A record that the text belongs to, whole or as a part of what several share; none of a fixed text.
    record: Option<&'a Arc<Record>>,
}

impl<'a> Span<'a> {
    pub(crate) fn as_str(self) -> &'a str {
        &self.text[self.start..self.end]
    }

    /// The record that keeps the text in memory, and where the span is in the text of [`Record::place`].
    pub(crate) fn place(self) -> Option<(&'a Arc<Record>, usize, usize)> {
        self.record.map(|record| (record, self.start, self.end))
    }
}

/// A message of several records, of which some were queued.
#[derive(Debug, Clone, Copy)]
struct Run {
    role: Role,
    len: usize,
    /// The first record with content parts.
    first_parts: Option<usize>,
    /// Whether the texts before that record make a part.
    plain_part: bool,
    /// Whether null stands for the content.
    null: bool,
    /// How many records were queued.
    done: usize,
    /// Whether something was queued that the next text or part is separated from.
    any: bool,
}

/// The messages of a request as JSON, with commas between them, piece by piece.
pub(crate) struct Pieces<'a> {
    records: Peekable<Take<Iter<'a, Arc<Record>>>>,
    run: Option<Run>,
    queue: VecDeque<Span<'a>>,
    /// The index of the next record.
    next: usize,
    empty_content: EmptyContent,
    started: bool,
    ended: bool,
}

impl<'a> Pieces<'a> {
    /// The messages of the records from one index to before another, where messages begin.
    pub(crate) fn new(
        records: &'a Sequence<Arc<Record>>,
        start: usize,
        end: usize,
        empty_content: EmptyContent,
    ) -> Self {
        Self {
            records: records.iter_from(start).take(end.saturating_sub(start)).peekable(),
            run: None,
            queue: VecDeque::new(),
            next: start,
            empty_content,
            started: false,
            ended: false,
        }
    }

    /// The same with a comma before the first message.
    pub(crate) fn continued(mut self) -> Self {
        self.started = true;
        self
    }

    /// The index of the record that a message begins with and everything queued lies before; `None` amid a message.
    pub(crate) fn boundary(&self) -> Option<usize> {
        self.run.is_none().then_some(self.next)
    }

    /// The next stretch of text that is queued already.
    pub(crate) fn next_queued(&mut self) -> Option<Span<'a>> {
        self.queue.pop_front()
    }

    /// The next stretch of text.
    pub(crate) fn next_span(&mut self) -> Option<Span<'a>> {
        // The newest span may still grow.
        while self.queue.len() < 2 && !self.ended {
            self.advance();
        }
        self.queue.pop_front()
    }

    /// Queues one more message, or one more record of a message of several.
    fn advance(&mut self) {
        let Some(record) = self.records.next() else {
            self.ended = true;
            return;
        };
        self.next += 1;
        if let Some(run) = self.run.take() {
            self.merge(record, run);
        } else if self.records.peek().is_some_and(|next| joins(record, next)) {
            let run = self.run_from(record);
            self.separate();
            self.fixed(wire::opening(run.role));
            self.fixed(match run.first_parts {
                Some(_) => "[",
                None if run.null => wire::NULL,
                None => "\"",
            });
            if run.plain_part {
                self.fixed(wire::TEXT_PART_OPEN);
            }
            self.started = true;
            self.merge(record, run);
        } else {
            self.message(record);
            self.started = true;
        }
    }

    /// The run that begins with this record; those behind it are only looked at.
    fn run_from(&self, first: &Record) -> Run {
        let (mut len, mut first_parts, mut any_text) = (0, None, false);
        let mut last: Option<&Record> = None;
        for record in std::iter::once(first).chain(self.records.clone().map(|record| &**record)) {
            if last.is_some_and(|last| !joins(last, record)) {
                break;
            }
            if record.form() == Form::Parts && first_parts.is_none() {
                first_parts = Some(len);
            }
            any_text |= first_parts.is_none() && record.text_bytes() > 0;
            last = Some(record);
            len += 1;
        }
        let role = first.role();
        // Texts that are empty may leave separators behind.
        let plain_part = first_parts.is_some_and(|plain| any_text || (plain > 1 && !empties_vanish(role)));
        let null = self.empty_content == EmptyContent::Null
            && first_parts.is_none()
            && !any_text
            && last.is_some_and(Record::has_calls);
        Run { role, len, first_parts, plain_part, null, done: 0, any: false }
    }

    /// Queues the comma before every message but the first.
    fn separate(&mut self) {
        if self.started {
            self.fixed(",");
        }
    }

    fn fixed(&mut self, text: &'static str) {
        self.queue.push_back(Span { text, start: 0, end: text.len(), record: None });
    }

    fn slice(&mut self, record: &'a Arc<Record>, start: usize, end: usize) {
        let (text, base, _) = record.place();
        self.queue.push_back(Span { text, start: base + start, end: base + end, record: Some(record) });
    }

    /// Queues the message of one record.
    fn message(&mut self, record: &'a Arc<Record>) {
        if self.empty_content == EmptyContent::Null && record.has_calls() && record.is_empty_text() {
            self.separate();
            self.fixed(wire::opening(record.role()));
            self.fixed(wire::NULL);
            self.slice(record, record.content_end(), record.wire().len());
            return;
        }
        let (text, start, end) = record.place();
        if let Some(last) = self.queue.back_mut()
            && std::ptr::eq(last.text, text)
            // Between two messages of a slab there is a comma. To look at it would fetch the text before its time.
            && last.end + 1 == start
        {
            debug_assert_eq!(text.as_bytes()[last.end], b',');
            last.end = end;
            return;
        }
        self.separate();
        self.queue.push_back(Span { text, start, end, record: Some(record) });
    }

    /// Queues what the next record adds to the message of its run, and the end of the message behind the last one.
    fn merge(&mut self, record: &'a Arc<Record>, mut run: Run) {
        if run.first_parts == Some(run.done) {
            if run.plain_part {
                self.fixed(wire::TEXT_PART_CLOSE);
            }
            run.any = run.plain_part;
        }
        match run.first_parts {
            Some(first_parts) if run.done >= first_parts => self.part(record, &mut run),
            Some(_) if !run.plain_part => {}
            _ => self.text(record, &mut run),
        }
        run.done += 1;
        if run.done < run.len {
            self.run = Some(run);
        } else {
            if !run.null {
                self.fixed(if run.first_parts.is_some() { "]" } else { "\"" });
            }
            self.slice(record, record.content_end(), record.wire().len());
        }
    }

    /// Queues a text of a run, joined with those before it.
    fn text(&mut self, record: &'a Arc<Record>, run: &mut Run) {
        let (start, end) = record.inside_content();
        if start == end && empties_vanish(run.role) {
            return;
        }
        let joined = run.any || (run.done > 0 && !empties_vanish(run.role));
        if joined && let Some(separator) = separator(run.role) {
            self.fixed(separator);
        }
        self.slice(record, start, end);
        run.any = true;
    }

    /// Queues the parts of a record of a run in parts.
    fn part(&mut self, record: &'a Arc<Record>, run: &mut Run) {
        if run.done > 0
            && let Some(separator) = separator(run.role)
        {
            self.comma(&mut run.any);
            self.fixed(wire::TEXT_PART_OPEN);
            self.fixed(separator);
            self.fixed(wire::TEXT_PART_CLOSE);
        }
        let (start, end) = record.inside_content();
        if start == end {
            return;
        }
        self.comma(&mut run.any);
        if record.form() == Form::Parts {
            self.slice(record, start, end);
        } else {
            self.fixed(wire::TEXT_PART_OPEN);
            self.slice(record, start, end);
            self.fixed(wire::TEXT_PART_CLOSE);
        }
    }

    fn comma(&mut self, any: &mut bool) {
        if *any {
            self.fixed(",");
        }
        *any = true;
    }
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        self.next_span().map(Span::as_str)
    }
}
