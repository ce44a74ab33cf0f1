//! A composed request: what one round sends, frozen, as JSON in shared pieces.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::compose::{Totals, empties_vanish, joins, separator};
use crate::precheck::{Precheck, estimate_tokens};
use crate::record::Record;
use crate::role::Role;
use crate::sequence::{Iter, Sequence};
use crate::wire::{self, Form, compact};

/// The messages that one round sends.
///
/// A request shares the records' text and never changes, whatever happens to the list it was composed from.
#[derive(Clone)]
pub struct Request {
    records: Sequence<Arc<Record>>,
    totals: Totals,
}

impl Request {
    pub(crate) fn new(records: Sequence<Arc<Record>>, totals: Totals) -> Self {
        Self { records, totals }
    }

    /// How many messages are sent.
    pub fn message_count(&self) -> u64 {
        self.totals.messages
    }

    /// How many records they were composed from.
    pub fn record_count(&self) -> usize {
        self.records.len()
    }

    /// The estimated tokens of the request.
    pub fn estimate(&self) -> u64 {
        estimate_tokens(self.totals.text_bytes + self.totals.call_bytes, self.totals.messages)
    }

    /// Checks the plain estimate against a context window; all numbers are tokens.
    pub fn precheck(&self, context: u64, max_tokens: Option<u64>) -> Precheck {
        Precheck::new(self.estimate(), context, max_tokens)
    }

    /// The messages as values.
    pub fn messages(&self) -> Vec<Value> {
        match crate::json::parse::parse(&self.text()) {
            Ok(Value::Array(messages)) => messages,
            _ => Vec::new(),
        }
    }

    fn text(&self) -> String {
        let mut text = String::with_capacity(self.total_len());
        for piece in self.pieces() {
            text.push_str(piece);
        }
        text
    }

    /// The messages as a JSON array.
    pub fn to_json(&self) -> Vec<u8> {
        self.text().into_bytes()
    }

    /// Bytes of the messages as a JSON array.
    pub fn total_len(&self) -> usize {
        let commas = self.totals.messages.saturating_sub(1);
        usize::try_from(self.totals.wire_bytes + commas + 2).unwrap_or(usize::MAX)
    }

    /// The messages as a JSON array, in pieces that are shared with the records.
    ///
    /// Neighbouring pieces that lie side by side in memory come as one.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces().map(str::as_bytes)
    }

    fn pieces(&self) -> Pieces<'_> {
        Pieces::new(&self.records)
    }

    /// A whole request body as one text; see [`Request::body_parts`].
    pub fn body(&self, model: &str, tools: Option<&Value>, options: &Map<String, Value>) -> Vec<u8> {
        let body = self.body_parts(model, tools, options);
        let mut bytes = Vec::with_capacity(body.len());
        for chunk in body.chunks() {
            bytes.extend_from_slice(chunk);
        }
        bytes
    }

    /// A request body: the model's name, the messages, the tools unless there are none, and the options.
    ///
    /// Options called `model`, `messages` or `tools` are left out, because they would repeat a key.
    pub fn body_parts(&self, model: &str, tools: Option<&Value>, options: &Map<String, Value>) -> Body {
        let mut head = String::from("{\"model\":");
        head.push_str(&compact(&Value::from(model)));
        head.push_str(",\"messages\":");
        let mut tail = String::new();
        if let Some(tools) = tools.filter(|tools| tools.as_array().is_none_or(|tools| !tools.is_empty())) {
            tail.push_str(",\"tools\":");
            tail.push_str(&compact(tools));
        }
        for (key, value) in options {
            if !matches!(key.as_str(), "model" | "messages" | "tools") {
                tail.push(',');
                tail.push_str(&compact(&Value::from(key.as_str())));
                tail.push(':');
                tail.push_str(&compact(value));
            }
        }
        tail.push('}');
        Body { head, request: self.clone(), tail }
    }
}

impl fmt::Debug for Request {
    /// Shows counts, never text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("messages", &self.totals.messages)
            .field("records", &self.records.len())
            .finish_non_exhaustive()
    }
}

/// The body of a model request, in pieces.
#[derive(Clone)]
pub struct Body {
    head: String,
    request: Request,
    tail: String,
}

impl Body {
    /// Bytes of the body.
    pub fn len(&self) -> usize {
        self.head.len() + self.request.total_len() + self.tail.len()
    }

    /// A body is never empty.
    pub fn is_empty(&self) -> bool {
        false
    }

    /// The body in pieces; those of the messages are shared with the records.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let head = std::iter::once(self.head.as_bytes());
        head.chain(self.request.chunks()).chain(std::iter::once(self.tail.as_bytes()))
    }
}

impl fmt::Debug for Body {
    /// Shows the length, never text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Body").field("len", &self.len()).finish_non_exhaustive()
    }
}

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

/// The JSON of a request, piece by piece.
struct Pieces<'a> {
    records: std::iter::Peekable<Iter<'a, Arc<Record>>>,
    run: Vec<&'a Record>,
    queue: VecDeque<Span<'a>>,
    started: bool,
    ended: bool,
}

impl<'a> Pieces<'a> {
    fn new(records: &'a Sequence<Arc<Record>>) -> Self {
        Self {
            records: records.iter_from(0).peekable(),
            run: Vec::new(),
            queue: VecDeque::new(),
            started: false,
            ended: false,
        }
    }

    /// Queues one more message, or the closing bracket.
    fn advance(&mut self) {
        let Some(first) = self.records.next() else {
            self.fixed(if self.started { "]" } else { "[]" });
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
            self.fixed(if self.started { "," } else { "[" });
            let run = std::mem::take(&mut self.run);
            self.merged(&run);
            self.run = run;
        }
        self.started = true;
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
        self.fixed(if self.started { "," } else { "[" });
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
