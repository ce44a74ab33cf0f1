//! What the model receives: runs of records merged into messages, counted as the list grows and never copied.

use std::sync::Arc;

use crate::record::Record;
use crate::role::Role;
use crate::sequence::Sequence;
use crate::wire::{self, Form};

/// Records between two checkpoints.
const CHECKPOINT: usize = 256;

/// What joins the texts of two user or two system records.
pub(crate) const SEPARATOR: &str = "\n\n";
/// [`SEPARATOR`] inside a JSON string.
pub(crate) const SEPARATOR_JSON: &str = "\\n\\n";

/// How a role's records join.
pub(crate) const fn separator(role: Role) -> Option<&'static str> {
    match role {
        Role::System | Role::User => Some(SEPARATOR_JSON),
        Role::Assistant | Role::Tool => None,
    }
}

/// Whether records with empty text leave no trace in a run of this role.
pub(crate) const fn empties_vanish(role: Role) -> bool {
    !matches!(role, Role::System)
}

/// Whether a record goes into the same message as the one before it.
pub(crate) fn joins(before: &Record, record: &Record) -> bool {
    before.role() == record.role() && record.role() != Role::Tool && !before.has_calls()
}

/// Where the run begins that goes on up to this index: the index of its first record.
pub(crate) fn run_start(records: &Sequence<Arc<Record>>, index: usize) -> usize {
    let mut start = index.saturating_sub(1);
    while let (Some(before), Some(record)) = (start.checked_sub(1).and_then(|at| records.get(at)), records.get(start))
        && joins(before, record)
    {
        start -= 1;
    }
    start
}

/// Where the run that begins at this index ends: the index behind its last record.
pub(crate) fn run_end(records: &Sequence<Arc<Record>>, start: usize) -> usize {
    let mut items = records.iter_from(start);
    let Some(mut before) = items.next() else { return start };
    let mut end = start + 1;
    for record in items {
        if !joins(before, record) {
            break;
        }
        before = record;
        end += 1;
    }
    end
}

/// The sums of the first message that these records make.
pub(crate) fn totals_of_run<'a>(records: impl Iterator<Item = &'a Arc<Record>>) -> Totals {
    let mut state = State::default();
    let mut before: Option<&Record> = None;
    for record in records {
        match before {
            None => state.open(record),
            Some(before) if joins(before, record) => state.join(record),
            Some(_) => break,
        }
        before = Some(record);
    }
    state.totals
}

/// Sums over the messages of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Totals {
    /// Messages after merging.
    pub(crate) messages: u64,
    /// Bytes of text, images aside.
    pub(crate) text_bytes: u64,
    /// Bytes of tool calls in their serialized form.
    pub(crate) call_bytes: u64,
    /// Bytes of the messages as JSON, without the commas between them.
    pub(crate) wire_bytes: u64,
}

/// The content of the message that still grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Growing {
    /// Whether it is an array of parts.
    parts: bool,
    /// Bytes of JSON between its quotes or brackets.
    inside: u64,
}

/// Sums and the growing message after some record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    totals: Totals,
    growing: Growing,
}

impl Default for State {
    fn default() -> Self {
        Self { totals: Totals::default(), growing: Growing { parts: false, inside: 0 } }
    }
}

/// The running composition of a list.
///
/// It holds numbers only; the text of a message is the text of its records. It moves forward record by record, and an
/// edit takes it back to a checkpoint.
#[derive(Debug, Clone, Default)]
pub(crate) struct Composer {
    done: usize,
    state: State,
    /// The state after each [`CHECKPOINT`] records.
    checkpoints: Sequence<State>,
}

/// What composing did.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Progress {
    pub(crate) records: u64,
    pub(crate) messages: u64,
    pub(crate) bytes: u64,
}

impl Composer {
    pub(crate) fn totals(&self) -> Totals {
        self.state.totals
    }

    /// Forgets the record at this position and everything after it.
    pub(crate) fn rewind(&mut self, position: usize) {
        if position >= self.done {
            return;
        }
        let kept = position / CHECKPOINT;
        self.checkpoints.truncate(kept);
        self.done = kept * CHECKPOINT;
        self.state = self.checkpoints.last().copied().unwrap_or_default();
    }

    /// Takes up the records that were not composed yet.
    pub(crate) fn advance(&mut self, records: &Sequence<Arc<Record>>) -> Progress {
        let mut progress = Progress::default();
        let bytes_before = self.state.totals.wire_bytes;
        let mut before = self.done.checked_sub(1).and_then(|last| records.get(last));
        for record in records.iter_from(self.done) {
            if before.is_some_and(|before| joins(before, record)) {
                self.state.join(record);
                progress.messages = progress.messages.max(1);
            } else {
                self.state.open(record);
                progress.messages += 1;
            }
            before = Some(record);
            progress.records += 1;
            self.done += 1;
            if self.done.is_multiple_of(CHECKPOINT) {
                self.checkpoints.push(self.state);
            }
        }
        progress.bytes = self.state.totals.wire_bytes.saturating_sub(bytes_before);
        progress
    }
}

impl State {
    fn open(&mut self, record: &Record) {
        self.totals.messages += 1;
        self.totals.wire_bytes += record.wire().len() as u64;
        self.count(record);
        self.growing = Growing { parts: record.form() == Form::Parts, inside: inside(record) };
    }

    fn count(&mut self, record: &Record) {
        self.totals.text_bytes += record.text_bytes() as u64;
        self.totals.call_bytes += record.call_bytes() as u64;
    }

    fn join(&mut self, record: &Record) {
        self.count(record);
        let role = record.role();
        let added = inside(record);
        let before = self.growing;
        self.growing = if before.parts || record.form() == Form::Parts {
            let left = if before.parts { Some(before.inside) } else { text_part(before.inside) };
            let middle = separator(role).and_then(|text| text_part(text.len() as u64));
            let right = if record.form() == Form::Parts { Some(added) } else { text_part(added) };
            self.totals.text_bytes += separator(role).map_or(0, |_| SEPARATOR.len() as u64);
            let items = [left, middle, right];
            let commas = (items.iter().flatten().count() as u64).saturating_sub(1);
            Growing { parts: true, inside: items.into_iter().flatten().sum::<u64>() + commas }
        } else if empties_vanish(role) && (added == 0 || before.inside == 0) {
            Growing { parts: false, inside: before.inside + added }
        } else {
            let middle = separator(role).unwrap_or("").len() as u64;
            self.totals.text_bytes += separator(role).map_or(0, |_| SEPARATOR.len() as u64);
            Growing { parts: false, inside: before.inside + middle + added }
        };
        // Besides its content, a later record of a run brings its tool calls.
        let calls = record.wire().len() - record.content_end() - 1;
        self.totals.wire_bytes += self.growing.inside - before.inside + calls as u64;
    }
}

/// Bytes of JSON between the quotes or brackets of the content.
fn inside(record: &Record) -> u64 {
    let (start, end) = record.inside_content();
    (end - start) as u64
}

/// Bytes of a text part around text that takes this many bytes of JSON; no part for no text.
fn text_part(inside: u64) -> Option<u64> {
    (inside > 0).then_some(inside + (wire::TEXT_PART_OPEN.len() + wire::TEXT_PART_CLOSE.len()) as u64)
}
