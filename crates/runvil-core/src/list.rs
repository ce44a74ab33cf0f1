//! The message list: an ordered conversation, its edits, and its running check and composition.

use std::fmt;
use std::sync::Arc;

use crate::compose::Composer;
use crate::error::{Code, ListError};
use crate::pairing::Pairing;
use crate::precheck::estimate_tokens;
use crate::record::Record;
use crate::request::Request;
use crate::role::Role;
use crate::sequence::{Iter, Sequence};
use crate::wire::Form;

/// The ordered records of a conversation.
///
/// A clone is a fork: it costs the same for any length, and the two lists share their records. Checking, composing and
/// estimating cost what was added since the last time; an edit takes the running state back to its first position.
#[derive(Default)]
pub struct MessageList {
    records: Sequence<Arc<Record>>,
    lineage: Lineage,
    leading: Leading,
    pairing: Pairing,
    composer: Composer,
    work: Work,
}

/// The system records at the start of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Leading {
    len: usize,
    /// The first one with content parts.
    first_parts: Option<usize>,
}

/// What checking and composing have done since the list was made.
///
/// The numbers show that the work follows what changed and not how long the list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Records looked at by the checks.
    pub records_checked: u64,
    /// Records taken up by composing.
    pub records_composed: u64,
    /// Messages that composing began or changed.
    pub messages_touched: u64,
    /// Bytes of message JSON that composing took up.
    pub bytes_composed: u64,
}

/// Lists and requests with the same lineage differ only in how far they go: the shorter one starts the longer one.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lineage(Arc<()>);

impl Lineage {
    pub(crate) fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Clone for MessageList {
    fn clone(&self) -> Self {
        // From here on the two may grow differently.
        Self { lineage: Lineage::default(), ..self.twin() }
    }
}

/// The state of a list at one moment.
#[derive(Clone)]
pub struct Snapshot(MessageList);

/// How large a list is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListSize {
    /// Its records.
    pub records: usize,
    /// The plain estimate of the request it makes, in tokens.
    pub estimate: u64,
}

impl MessageList {
    /// An empty list.
    pub fn new() -> Self {
        Self::default()
    }

    /// A copy that is known to be one. Only one of the two may grow.
    fn twin(&self) -> Self {
        Self {
            records: self.records.clone(),
            lineage: self.lineage.clone(),
            leading: self.leading,
            pairing: self.pairing.clone(),
            composer: self.composer.clone(),
            work: self.work,
        }
    }

    /// How many records the list holds.
    pub fn len(&self) -> usize {
        self.records.len()
    }

    /// Whether the list holds no record.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether another list or request holds the records too, as far as can be told cheaply: then dropping this one
    /// costs nothing.
    pub fn shares_records(&self) -> bool {
        self.records.is_shared()
    }

    /// The record at this index, from 0.
    pub fn get(&self, index: usize) -> Option<&Arc<Record>> {
        self.records.get(index)
    }

    /// The records in order.
    pub fn iter(&self) -> Records<'_> {
        self.iter_from(0)
    }

    /// The records from this index, counted from 0, on.
    pub fn iter_from(&self, index: usize) -> Records<'_> {
        Records(self.records.iter_from(index))
    }

    /// How many system records lead the list.
    pub fn leading_system_len(&self) -> usize {
        self.leading.len
    }

    /// What checking and composing have done so far.
    pub fn work(&self) -> Work {
        self.work
    }

    /// Adds a record at the end. A system record is refused once the list holds a record of another role.
    pub fn append(&mut self, record: impl Into<Arc<Record>>) -> Result<(), ListError> {
        let record = record.into();
        if record.role() == Role::System {
            if self.leading.len < self.len() {
                return Err(ListError::at(Code::LateSystem, self.len() + 1));
            }
            self.leading.add(&record);
        }
        self.records.push(record);
        Ok(())
    }

    /// Adds records at the end, all of them or none, each as [`MessageList::append`] does.
    pub fn extend(&mut self, records: Vec<Arc<Record>>) -> Result<(), ListError> {
        self.check_placement(self.len(), self.len(), &records)?;
        for record in records {
            self.push_loaded(record);
        }
        Ok(())
    }

    /// Adds a record whose placement was checked.
    pub(crate) fn push_loaded(&mut self, record: Arc<Record>) {
        if record.role() == Role::System {
            self.leading.add(&record);
        }
        self.records.push(record);
    }

    /// Moves the checks and the composition up to the last record.
    pub(crate) fn take_up(&mut self) {
        let (visited, _) = self.pairing.advance(&self.records);
        self.work.records_checked += visited as u64;
        self.advance();
    }

    /// Checks the range of a replace: `1 <= first <= last + 1 <= len + 1`. Both bounds count from 1 and are inclusive.
    pub fn check_range(&self, first: i128, last: i128) -> Result<(usize, usize), ListError> {
        let refused = || ListError::range_out_of_bounds(first, last, self.len());
        let (Ok(from), Ok(to)) = (usize::try_from(first), usize::try_from(last)) else { return Err(refused()) };
        if from >= 1 && from - 1 <= to && to <= self.len() { Ok((from, to)) } else { Err(refused()) }
    }

    /// Replaces the records `first` to `last`, counted from 1 and inclusive, by these; all of them or none.
    ///
    /// `first == last + 1` is an empty range and inserts before `first`.
    pub fn replace(&mut self, first: usize, last: usize, records: Vec<Arc<Record>>) -> Result<(), ListError> {
        self.check_range(first as i128, last as i128)?;
        let start = first - 1;
        self.check_placement(start, last, &records)?;
        if start == last && records.is_empty() {
            return Ok(());
        }
        self.lineage = Lineage::default();
        let suffix: Vec<_> = self.records.iter_from(last).cloned().collect();
        self.pairing.rewind(start, &self.records);
        self.composer.rewind(start);
        self.records.truncate(start);
        for record in records.into_iter().chain(suffix) {
            self.records.push(record);
        }
        if start <= self.leading.len {
            self.leading = Leading::of(&self.records);
        }
        Ok(())
    }

    /// Whether the edited list would have a system record behind another record.
    fn check_placement(&self, start: usize, last: usize, new: &[Arc<Record>]) -> Result<(), ListError> {
        let mut led = start <= self.leading.len;
        for (index, record) in new.iter().enumerate() {
            match record.role() {
                Role::System if !led => return Err(ListError::at(Code::LateSystem, start + index + 1)),
                Role::System => {}
                _ => led = false,
            }
        }
        if !led && last < self.leading.len {
            return Err(ListError::at(Code::LateSystem, start + new.len() + 1));
        }
        Ok(())
    }

    /// Removes every record.
    pub fn clear(&mut self) {
        *self = Self { work: self.work, ..Self::default() };
    }

    /// The list as it is now, to go back to. Copies no text.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot(self.clone())
    }

    /// Goes back to a snapshot.
    pub fn restore(&mut self, snapshot: Snapshot) {
        let Self { records, leading, pairing, composer, .. } = snapshot.0;
        *self = Self { records, lineage: Lineage::default(), leading, pairing, composer, work: self.work };
    }

    /// Checks the rules that span records: the leading system block, unique call ids, every call with one result.
    pub fn check(&mut self) -> Result<(), ListError> {
        let (visited, verdict) = self.pairing.advance(&self.records);
        self.work.records_checked += visited as u64;
        if self.leading.len > 1
            && let Some(index) = self.leading.first_parts
        {
            return Err(ListError::at(Code::SystemParts, index + 1));
        }
        verdict
    }

    /// Composes the request that the list makes now: first the rules that span records, then the messages.
    ///
    /// An empty list is refused.
    pub fn compose(&mut self) -> Result<Request, ListError> {
        if self.is_empty() {
            return Err(ListError::list_empty());
        }
        self.check()?;
        self.advance();
        Ok(Request::new(self.records.clone(), self.lineage.clone(), self.composer.totals()))
    }

    /// How large the list is.
    pub fn size(&mut self) -> ListSize {
        ListSize { records: self.len(), estimate: self.estimate() }
    }

    /// The estimated tokens of the request that the list makes now, whether or not it passes the checks.
    pub fn estimate(&mut self) -> u64 {
        self.advance();
        let totals = self.composer.totals();
        estimate_tokens(totals.text_bytes + totals.call_bytes, totals.messages)
    }

    fn advance(&mut self) {
        let progress = self.composer.advance(&self.records);
        self.work.records_composed += progress.records;
        self.work.messages_touched += progress.messages;
        self.work.bytes_composed += progress.bytes;
    }
}

impl Leading {
    fn add(&mut self, record: &Record) {
        if record.form() == Form::Parts && self.first_parts.is_none() {
            self.first_parts = Some(self.len);
        }
        self.len += 1;
    }

    fn of(records: &Sequence<Arc<Record>>) -> Self {
        let mut leading = Self::default();
        records.iter_from(0).take_while(|record| record.role() == Role::System).for_each(|record| leading.add(record));
        leading
    }
}

impl fmt::Debug for MessageList {
    /// Shows the length, never text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MessageList").field("len", &self.len()).finish_non_exhaustive()
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("len", &self.0.len()).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// The list as it was.
    pub fn list(&self) -> &MessageList {
        &self.0
    }
}

impl PartialEq for MessageList {
    /// Lists are equal when their records are.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().zip(other.iter()).all(|(a, b)| Arc::ptr_eq(a, b) || a == b)
    }
}

impl Eq for MessageList {}

impl<'a> IntoIterator for &'a MessageList {
    type Item = &'a Arc<Record>;
    type IntoIter = Records<'a>;

    fn into_iter(self) -> Records<'a> {
        self.iter()
    }
}

/// The records of a list, in order.
#[derive(Clone)]
pub struct Records<'a>(Iter<'a, Arc<Record>>);

impl<'a> Iterator for Records<'a> {
    type Item = &'a Arc<Record>;

    fn next(&mut self) -> Option<&'a Arc<Record>> {
        self.0.next()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.0.size_hint()
    }
}

impl ExactSizeIterator for Records<'_> {}

impl fmt::Debug for Records<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Records").field("left", &self.0.len()).finish()
    }
}
