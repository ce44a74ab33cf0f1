//! The JSON of a request, as stretches of the records' text and a few fixed pieces between them.

use std::collections::VecDeque;
use std::iter::{Peekable, Take};
use std::sync::Arc;

use crate::compose::{empties_vanish, joins, separator};
use crate::record::Record;
use crate::role::Role;
use crate::sequence::{Iter, Sequence};
use crate::wire::{self, Form};

/// A stretch of a text.
#[derive(Debug, Clone, Copy)]
struct Span<'a> {
    text: &'a str,
    start: usize,
    end: usize,
}

impl<'a> Span<'a> {
    fn as_str(self) -> &'a str {
        &self.text[self.start..self.end]
    }
}

/// The messages of a request as JSON, with commas between them, piece by piece.
pub(crate) struct Pieces<'a> {
    records: Peekable<Take<Iter<'a, Arc<Record>>>>,
    run: Vec<&'a Record>,
    queue: VecDeque<Span<'a>>,
    started: bool,
    ended: bool,
}

impl<'a> Pieces<'a> {
    /// The messages of the records from one index to before another, where messages begin.
    pub(crate) fn new(records: &'a Sequence<Arc<Record>>, start: usize, end: usize) -> Self {
        Self {
            records: records.iter_from(start).take(end.saturating_sub(start)).peekable(),
            run: Vec::new(),
            queue: VecDeque::new(),
            started: false,
            ended: false,
        }
    }

    /// Queues one more message.
    fn advance(&mut self) {
        let Some(first) = self.records.next() else {
            self.ended = true;
            return;
        };
        let mut last: &Record = first;
        self.run.clear();
        while let Some(next) = self.records.next_if(|next| joins(last, next)) {
            if self.run.is_empty() {
                self.run.push(first);
            }
            self.run.push(next);
            last = next;
        }
        if self.run.is_empty() {
            self.message(first);
        } else {
            self.separate();
            let run = std::mem::take(&mut self.run);
            self.merged(&run);
            self.run = run;
        }
        self.started = true;
    }

    /// Queues the comma before every message but the first.
    fn separate(&mut self) {
        if self.started {
            self.fixed(",");
        }
    }

    fn fixed(&mut self, text: &'static str) {
        self.queue.push_back(Span { text, start: 0, end: text.len() });
    }

    fn slice(&mut self, record: &'a Record, start: usize, end: usize) {
        let (text, base, _) = record.place();
        self.queue.push_back(Span { text, start: base + start, end: base + end });
    }

    /// Queues the message of one record.
    fn message(&mut self, record: &'a Record) {
        let (text, start, end) = record.place();
        if let Some(last) = self.queue.back_mut()
            && std::ptr::eq(last.text, text)
            && last.end + 1 == start
            && text.as_bytes()[last.end] == b','
        {
            last.end = end;
            return;
        }
        self.separate();
        self.queue.push_back(Span { text, start, end });
    }

    /// Queues the message of several records.
    fn merged(&mut self, run: &[&'a Record]) {
        let (Some(first), Some(last)) = (run.first(), run.last()) else { return };
        self.fixed(wire::opening(first.role()));
        match run.iter().position(|record| record.form() == Form::Parts) {
            None => {
                self.fixed("\"");
                self.texts(run);
                self.fixed("\"");
            }
            Some(parts) => {
                self.fixed("[");
                self.parts(run, parts);
                self.fixed("]");
            }
        }
        self.slice(last, last.content_end(), last.wire().len());
    }

    /// Queues the texts of a run, joined. Returns whether there was any.
    fn texts(&mut self, run: &[&'a Record]) -> bool {
        let mut any = false;
        for (index, record) in run.iter().enumerate() {
            let (start, end) = record.inside_content();
            if start == end && empties_vanish(record.role()) {
                continue;
            }
            let joined = any || (index > 0 && !empties_vanish(record.role()));
            if joined && let Some(separator) = separator(record.role()) {
                self.fixed(separator);
            }
            self.slice(record, start, end);
            any = true;
        }
        any
    }

    /// Queues the parts of a run whose record number `first_parts` is the first one with parts.
    fn parts(&mut self, run: &[&'a Record], first_parts: usize) {
        let (plain, mixed) = run.split_at(first_parts);
        let mut any = plain.iter().any(|record| record.text_bytes() > 0) || separated_empties(plain);
        if any {
            self.fixed(wire::TEXT_PART_OPEN);
            self.texts(plain);
            self.fixed(wire::TEXT_PART_CLOSE);
        }
        for (index, record) in mixed.iter().enumerate() {
            if first_parts + index > 0
                && let Some(separator) = separator(record.role())
            {
                self.comma(&mut any);
                self.fixed(wire::TEXT_PART_OPEN);
                self.fixed(separator);
                self.fixed(wire::TEXT_PART_CLOSE);
            }
            let (start, end) = record.inside_content();
            if start == end {
                continue;
            }
            self.comma(&mut any);
            if record.form() == Form::Parts {
                self.slice(record, start, end);
            } else {
                self.fixed(wire::TEXT_PART_OPEN);
                self.slice(record, start, end);
                self.fixed(wire::TEXT_PART_CLOSE);
            }
        }
    }

    fn comma(&mut self, any: &mut bool) {
        if *any {
            self.fixed(",");
        }
        *any = true;
    }
}

/// Whether empty texts leave separators behind.
fn separated_empties(run: &[&Record]) -> bool {
    run.len() > 1 && run.first().is_some_and(|record| record.role() == Role::System)
}

impl<'a> Iterator for Pieces<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        // The newest span may still grow.
        while self.queue.len() < 2 && !self.ended {
            self.advance();
        }
        self.queue.pop_front().map(Span::as_str)
    }
}
