//! The rules that span records: the leading system block, unique call ids, and every call paired with one result.

use std::sync::Arc;

use crate::error::{Code, ListError};
use crate::json::string::unescape;
use crate::record::Record;
use crate::role::Role;
use crate::seen::SeenIds;
use crate::sequence::Sequence;

/// Batches up to this many calls are searched call by call.
const SHORT_BATCH: usize = 8;

/// How far a list has been checked, and what the rules need to know of the checked records.
///
/// It moves forward record by record. An edit takes it back to the first record that changed. Positions are from 0
/// here, and from 1 in errors.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pairing {
    checked: usize,
    seen: SeenIds,
    /// The last batch, which may be answered in full.
    open: Option<OpenBatch>,
    /// The first rule broken so far; the record at `checked` broke it.
    broken: Option<ListError>,
}

/// The calls of an assistant record, and which of them have results.
#[derive(Debug, Clone)]
struct OpenBatch {
    record: Arc<Record>,
    position: usize,
    /// Where each id is in the record's message.
    ids: Vec<(usize, usize)>,
    answered: Vec<bool>,
    missing: usize,
    /// No call before this one waits.
    first_missing: usize,
    /// The calls sorted by id, once a long batch is answered out of order.
    by_id: Vec<usize>,
}

impl OpenBatch {
    /// A batch of no calls.
    fn empty(record: &Arc<Record>) -> Self {
        Self {
            record: Arc::clone(record),
            position: 0,
            ids: Vec::new(),
            answered: Vec::new(),
            missing: 0,
            first_missing: 0,
            by_id: Vec::new(),
        }
    }

    /// Takes up another record's calls, in the memory of the last ones.
    fn become_that_of(&mut self, record: &Arc<Record>, position: usize) {
        self.record = Arc::clone(record);
        self.position = position;
        self.ids.clear();
        self.ids.extend(record.call_id_spans());
        self.answered.clear();
        self.answered.resize(self.ids.len(), false);
        self.missing = self.ids.len();
        self.first_missing = 0;
        self.by_id.clear();
    }

    fn id(&self, call: usize) -> &str {
        self.ids.get(call).map_or("", |(start, end)| &self.record.wire()[*start..*end])
    }

    /// Marks the call with this id as answered. Returns whether it was waiting.
    fn answer(&mut self, id: &str) -> bool {
        // Results mostly come in the order of their calls.
        let next = self.first_missing;
        let found = if next < self.ids.len() && self.id(next) == id {
            Some(next)
        } else if self.ids.len() <= SHORT_BATCH {
            (next..self.ids.len()).find(|call| !self.answered[*call] && self.id(*call) == id)
        } else {
            self.find_by_id(id).filter(|call| !self.answered[*call])
        };
        let Some(call) = found else { return false };
        self.answered[call] = true;
        self.missing -= 1;
        while self.answered.get(self.first_missing) == Some(&true) {
            self.first_missing += 1;
        }
        true
    }

    fn find_by_id(&mut self, id: &str) -> Option<usize> {
        if self.by_id.is_empty() {
            let mut calls: Vec<_> = (0..self.ids.len()).collect();
            calls.sort_unstable_by_key(|call| self.id(*call));
            self.by_id = calls;
        }
        let place = self.by_id.binary_search_by_key(&id, |call| self.id(*call)).ok()?;
        self.by_id.get(place).copied()
    }

    fn unanswered(&self) -> ListError {
        ListError::named(Code::CallUnanswered, self.position + 1, &said(self.id(self.first_missing)))
    }
}

impl Pairing {
    /// Forgets the record at this position and everything after it.
    ///
    /// `records` is the list before the edit or after it: the records before `position` are the same.
    pub(crate) fn rewind(&mut self, position: usize, records: &Sequence<Arc<Record>>) {
        if position > self.checked || (position == self.checked && self.broken.is_none()) {
            return;
        }
        self.broken = None;
        if position == self.checked {
            return;
        }
        self.checked = position;
        self.seen.forget_from(position);
        self.open = batch_before(position, records);
    }

    /// Checks the records that were not checked yet.
    ///
    /// Returns how many records were visited, and the first rule broken.
    pub(crate) fn advance(&mut self, records: &Sequence<Arc<Record>>) -> (usize, Result<(), ListError>) {
        let before = self.checked;
        if self.broken.is_none() {
            for record in records.iter_from(before) {
                if let Err(error) = self.step(record, records) {
                    self.broken = Some(error);
                    break;
                }
                self.checked += 1;
            }
        }
        let visited = self.checked - before;
        let verdict = match (&self.broken, &self.open) {
            (Some(error), _) => Err(error.clone()),
            (None, Some(batch)) if batch.missing > 0 => Err(batch.unanswered()),
            _ => Ok(()),
        };
        (visited, verdict)
    }

    fn step(&mut self, record: &Arc<Record>, records: &Sequence<Arc<Record>>) -> Result<(), ListError> {
        let position = self.checked;
        if record.role() == Role::Tool {
            if record.has_calls() {
                return Err(ListError::at(Code::ToolCallsMisplaced, position + 1));
            }
            let id = record.raw_tool_call_id().unwrap_or("");
            if self.open.as_mut().is_some_and(|batch| batch.answer(id)) {
                return Ok(());
            }
            return Err(ListError::named(Code::OrphanResult, position + 1, &said(id)));
        }
        if record.has_calls() && record.role() != Role::Assistant {
            return Err(ListError::at(Code::ToolCallsMisplaced, position + 1));
        }
        if let Some(batch) = self.open.as_ref().filter(|batch| batch.missing > 0) {
            return Err(batch.unanswered());
        }
        if record.has_calls() {
            let mut batch = self.open.take().unwrap_or_else(|| OpenBatch::empty(record));
            batch.become_that_of(record, position);
            self.take_ids(&batch, records)?;
            self.open = Some(batch);
        }
        Ok(())
    }

    /// Takes up the ids of a new batch, each of which must be new.
    fn take_ids(&mut self, batch: &OpenBatch, records: &Sequence<Arc<Record>>) -> Result<(), ListError> {
        for call in 0..batch.ids.len() {
            let id = batch.id(call);
            let hash = self.seen.hash(id);
            let used = self.seen.positions(hash).any(|position| {
                if position == batch.position {
                    (0..call).any(|earlier| batch.id(earlier) == id)
                } else {
                    records.get(position).is_some_and(|record| record.raw_calls().any(|other| other.id == id))
                }
            });
            if used {
                let error = ListError::named(Code::CallIdDuplicate, batch.position + 1, &said(id));
                self.seen.forget_from(batch.position);
                return Err(error);
            }
            self.seen.insert(hash, batch.position);
        }
        Ok(())
    }
}

/// The batch that is open right before this position, answered calls included.
fn batch_before(position: usize, records: &Sequence<Arc<Record>>) -> Option<OpenBatch> {
    let caller = (0..position).rev().find(|at| records.get(*at).is_some_and(|record| record.role() != Role::Tool))?;
    let record = records.get(caller).filter(|record| record.has_calls())?;
    let mut batch = OpenBatch::empty(record);
    batch.become_that_of(record, caller);
    for result in records.iter_from(caller + 1).take(position - caller - 1) {
        batch.answer(result.raw_tool_call_id().unwrap_or(""));
    }
    Some(batch)
}

fn said(inside: &str) -> String {
    unescape(inside).unwrap_or_default().into_owned()
}
