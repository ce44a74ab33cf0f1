//! A composed request: what one round sends, frozen, as JSON in shared pieces.

use std::fmt;
use std::iter::once;
use std::sync::Arc;

use serde_json::{Map, Value};

use crate::body::Body;
use crate::compose::{Totals, run_end, run_start, totals_of_run};
use crate::list::Lineage;
use crate::pieces::{EmptyContent, Pieces};
use crate::precheck::{Precheck, estimate_tokens};
use crate::record::Record;
use crate::role::Role;
use crate::sequence::Sequence;
use crate::wire::compact;

/// The messages that one round sends.
///
/// A request shares the records' text and never changes, whatever happens to the list it was composed from. The default
/// one sends nothing.
#[derive(Clone, Default)]
pub struct Request {
    records: Sequence<Arc<Record>>,
    lineage: Lineage,
    totals: Totals,
}

impl Request {
    pub(crate) fn new(records: Sequence<Arc<Record>>, lineage: Lineage, totals: Totals) -> Self {
        Self { records, lineage, totals }
    }

    /// How many messages are sent.
    pub fn message_count(&self) -> u64 {
        self.totals.messages
    }

    /// How many records they were composed from.
    pub fn record_count(&self) -> usize {
        self.records.len()
    }

    /// Whether another list or request holds the records too, as far as can be told cheaply: then dropping this one
    /// costs nothing.
    pub fn shares_records(&self) -> bool {
        self.records.is_shared()
    }

    /// The estimated tokens of the request.
    pub fn estimate(&self) -> u64 {
        estimate_tokens(self.totals.text_bytes + self.totals.call_bytes, self.totals.messages)
    }

    /// Checks the plain estimate against a context window; all numbers are tokens.
    pub fn precheck(&self, context: u64, max_tokens: Option<u64>) -> Precheck {
        Precheck::new(self.estimate(), context, max_tokens)
    }

    /// Where this request's record run goes on after the very messages of an earlier one: the index of the first record
    /// behind them.
    fn end_of_prefix(&self, earlier: &Self) -> Option<usize> {
        let common = self.common_records(earlier);
        // Messages that end before this record are the same; the rest is compared by value.
        let mut start = run_start(&self.records, common.min(self.records.len()));
        let mut other = start;
        while other < earlier.records.len() {
            let (end, other_end) = (run_end(&self.records, start), run_end(&earlier.records, other));
            let same_records = end == other_end && start == other && end <= common;
            if !same_records && self.run_text(start) != earlier.run_text(other) {
                return None;
            }
            (start, other) = (end, other_end);
        }
        Some(start)
    }

    /// How many records this request and an earlier one begin with alike.
    fn common_records(&self, earlier: &Self) -> usize {
        if self.lineage.is(&earlier.lineage) {
            return self.records.len().min(earlier.records.len());
        }
        let pairs = self.records.iter_from(0).zip(earlier.records.iter_from(0));
        pairs.take_while(|(ours, theirs)| Arc::ptr_eq(ours, theirs) || ours.wire() == theirs.wire()).count()
    }

    /// What this request adds to an earlier one: how many messages both begin with, and the JSON array of the others.
    ///
    /// For a list that only grew this costs what was added.
    pub fn difference(&self, earlier: &Self) -> (u64, Vec<u8>) {
        let common = self.common_records(earlier);
        let len = self.records.len();
        let mut start = run_start(&self.records, common.min(len));
        let mut other = run_start(&earlier.records, common.min(earlier.records.len()));
        let mut shared = self.totals.messages - messages_from(&self.records, start);
        if start == other {
            while start < len && other < earlier.records.len() && self.run_text(start) == earlier.run_text(other) {
                (start, other) = (run_end(&self.records, start), run_end(&earlier.records, other));
                shared += 1;
            }
        }
        let mut text = String::from("[");
        if start < len {
            self.push_messages(start, EmptyContent::Text, &mut text);
        }
        text.push(']');
        (shared, text.into_bytes())
    }

    /// The JSON of the message that begins with this record.
    fn run_text(&self, start: usize) -> String {
        self.pieces(start, run_end(&self.records, start)).collect()
    }

    /// The records from this index on.
    pub(crate) fn records_from(&self, index: usize) -> impl Iterator<Item = &Record> {
        self.records.iter_from(index).map(|record| &**record)
    }

    pub(crate) fn lineage(&self) -> &Lineage {
        &self.lineage
    }

    /// Appends the messages from the one on that begins with this record, with commas between them. Returns the index
    /// of the last message's first record, and where that message begins in the text.
    pub(crate) fn push_messages(&self, from: usize, empty_content: EmptyContent, out: &mut String) -> (usize, usize) {
        let len = self.records.len();
        let last = run_start(&self.records, len).max(from);
        self.pieces_with(from, last, empty_content).for_each(|piece| out.push_str(piece));
        if last > from {
            out.push(',');
        }
        let begins = out.len();
        self.pieces_with(last, len, empty_content).for_each(|piece| out.push_str(piece));
        (last, begins)
    }

    /// The estimated tokens of what follows the reply to an earlier request: this request begins with the very messages
    /// of that one, and an assistant message, the reply, comes next. `None` when it does not.
    pub fn estimate_after_reply(&self, earlier: &Self) -> Option<u64> {
        let reply = self.end_of_prefix(earlier)?;
        if self.records.get(reply)?.role() != Role::Assistant {
            return None;
        }
        let (before, message) = (earlier.totals, totals_of_run(self.records.iter_from(reply)));
        let bytes = |totals: Totals| totals.text_bytes + totals.call_bytes;
        let bytes = bytes(self.totals).saturating_sub(bytes(before) + bytes(message));
        Some(estimate_tokens(bytes, self.totals.messages.saturating_sub(before.messages + 1)))
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
        text.push('[');
        self.pieces(0, self.records.len()).for_each(|piece| text.push_str(piece));
        text.push(']');
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
        self.chunks_with(EmptyContent::Text)
    }

    /// Like [`Request::chunks`], with the given content beside calls.
    pub(crate) fn chunks_with(&self, empty_content: EmptyContent) -> impl Iterator<Item = &[u8]> {
        let messages = self.pieces_with(0, self.records.len(), empty_content).map(str::as_bytes);
        once(&b"["[..]).chain(messages).chain(once(&b"]"[..]))
    }

    fn pieces(&self, start: usize, end: usize) -> Pieces<'_> {
        self.pieces_with(start, end, EmptyContent::Text)
    }

    pub(crate) fn pieces_with(&self, start: usize, end: usize, empty_content: EmptyContent) -> Pieces<'_> {
        Pieces::new(&self.records, start, end, empty_content)
    }

    /// A whole request body as one text; see [`Request::body_parts`].
    pub fn body(&self, model: &str, tools: Option<&Value>, options: &Map<String, Value>) -> Vec<u8> {
        self.body_parts(model, tools, options).to_bytes()
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
        Body::new(head, self.clone(), tail)
    }
}

/// How many messages the records from this index on make; it begins a message.
fn messages_from(records: &Sequence<Arc<Record>>, start: usize) -> u64 {
    let (mut messages, mut start) = (0, start);
    while start < records.len() {
        start = run_end(records, start);
        messages += 1;
    }
    messages
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
