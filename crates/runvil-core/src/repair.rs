//! Mending histories from elsewhere, for callers who ask for it: nothing here happens by itself.

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use crate::list::MessageList;
use crate::quote::Quoted;
use crate::record::Record;
use crate::role::Role;
use crate::wire::Form;

/// The result given to a call that has none.
pub const MISSING_RESULT: &str = "no result was recorded for this tool call";

/// One change that [`repair`] made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The position, from 1, of the changed record among the given ones.
    pub position: usize,
    /// What was done, and why.
    pub kind: ChangeKind,
}

/// What [`repair`] did to a record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ChangeKind {
    /// A system record stood behind another one and was moved to the end of the leading block.
    SystemMoved,
    /// A system record of a leading block of several held content parts; only its text was kept.
    SystemFlattened {
        /// Image parts that were dropped.
        images: usize,
    },
    /// Text parts without text were removed.
    EmptyPartsRemoved {
        /// How many.
        parts: usize,
    },
    /// Tool calls were removed from a record that is not the assistant's.
    CallsRemoved {
        /// How many.
        calls: usize,
    },
    /// A tool call id was used before, and the call got a new one, as did its result.
    IdRenamed {
        /// The repeated id.
        from: String,
        /// The new id.
        to: String,
    },
    /// A tool record answered no call and was removed.
    OrphanRemoved {
        /// The id it answered.
        id: String,
    },
    /// A tool record stood apart from its call and was moved behind it.
    ResultMoved {
        /// The id it answers.
        id: String,
    },
    /// A call had no result and got [`MISSING_RESULT`]. The position is that of the call's record.
    ResultAdded {
        /// The call's id.
        id: String,
    },
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "messages[{}] ", self.position)?;
        match &self.kind {
            ChangeKind::SystemMoved => {
                f.write_str("is a system message after a non-system message: moved to the end of the leading block")
            }
            ChangeKind::SystemFlattened { images } => write!(
                f,
                "is one of several leading system messages and has content parts: only its text was kept, \
                 {images} images were dropped"
            ),
            ChangeKind::EmptyPartsRemoved { parts } => write!(f, "has text parts without text: {parts} removed"),
            ChangeKind::CallsRemoved { calls } => {
                write!(f, "sets tool_calls but is not an assistant message: {calls} calls removed")
            }
            ChangeKind::IdRenamed { from, to } => {
                write!(f, "tool call id {} duplicates an earlier tool call: renamed to {}", Quoted(from), Quoted(to))
            }
            ChangeKind::OrphanRemoved { id } => write!(f, "answers no tool call with id {}: removed", Quoted(id)),
            ChangeKind::ResultMoved { id } => {
                write!(f, "stands apart from its tool call {}: moved behind it", Quoted(id))
            }
            ChangeKind::ResultAdded { id } => {
                write!(f, "tool call {} has no tool result: one that says so was added", Quoted(id))
            }
        }
    }
}

/// Makes a list that passes [`MessageList::check`] out of records that may not, and reports every change.
///
/// - System records behind another record move to the end of the leading block. In a block of several, records with
///   content parts keep only their text, joined with blank lines.
/// - Text parts without text are removed; content of which nothing is left becomes the empty string.
/// - Tool calls on records that are not the assistant's are removed.
/// - Each tool record is paired with a call of its id: the first one still unanswered in the exchange it stands in,
///   else the first one still unanswered before it. A paired record moves behind its call's record when it stands
///   apart from it; one without a call is removed.
/// - A call without a result gets one that says [`MISSING_RESULT`].
/// - A call whose id was used before gets a new one, and so does its result: the id with `_2`, `_3` and so on behind
///   it, the first that no other call has.
///
/// The same records always give the same list, and repairing that list changes nothing. The changes come in the order
/// of their positions.
pub fn repair(records: impl IntoIterator<Item = Arc<Record>>) -> (MessageList, Vec<Change>) {
    let mut repairer = Repairer::default();
    let cleaned: Vec<_> =
        records.into_iter().enumerate().map(|(index, record)| repairer.clean(index, record)).collect();
    let exchanges = repairer.pair(&cleaned);
    let list = repairer.rebuild(&cleaned, exchanges);
    repairer.changes.sort_by_key(|change| change.position);
    (list, repairer.changes)
}

#[derive(Default)]
struct Repairer {
    changes: Vec<Change>,
}

/// A call of an assistant record: its id, and the index of the record that answers it.
struct Call {
    id: String,
    result: Option<usize>,
}

/// The calls of the record with this index.
struct Exchange {
    record: usize,
    calls: Vec<Call>,
}

/// The ids that calls have.
#[derive(Default)]
struct Ids {
    /// Those of all calls, old and new.
    taken: HashSet<String>,
    /// How often each id was given out so far.
    used: HashMap<String, usize>,
}

impl Ids {
    /// The id itself the first time, a new one after that.
    fn unique(&mut self, id: &str) -> String {
        let Some(count) = self.used.get_mut(id) else {
            self.used.insert(id.to_owned(), 1);
            return id.to_owned();
        };
        loop {
            *count += 1;
            let other = format!("{id}_{count}");
            if self.taken.insert(other.clone()) {
                return other;
            }
        }
    }
}

impl Repairer {
    fn report(&mut self, index: usize, kind: ChangeKind) {
        self.changes.push(Change { position: index + 1, kind });
    }

    /// Removes empty parts and misplaced calls.
    fn clean(&mut self, index: usize, record: Arc<Record>) -> Arc<Record> {
        let misplaced = if record.role() == Role::Assistant { 0 } else { record.call_count() };
        let empty = if record.form() == Form::Parts { empty_parts(&record.content()) } else { 0 };
        if misplaced == 0 && empty == 0 {
            return record;
        }
        let mut value = record.to_value();
        if misplaced > 0 {
            if let Some(map) = value.as_object_mut() {
                map.shift_remove("tool_calls");
            }
            self.report(index, ChangeKind::CallsRemoved { calls: misplaced });
        }
        if empty > 0 {
            if let Some(parts) = value["content"].as_array_mut() {
                parts.retain(|part| part["text"] != "");
                if parts.is_empty() {
                    value["content"] = Value::from("");
                }
            }
            self.report(index, ChangeKind::EmptyPartsRemoved { parts: empty });
        }
        remade(&value, record)
    }

    /// Pairs calls with results.
    fn pair(&mut self, records: &[Arc<Record>]) -> Vec<Exchange> {
        let mut exchanges: Vec<Exchange> = Vec::new();
        // Unanswered calls by id, oldest first, as places in `exchanges`.
        let mut waiting: HashMap<String, VecDeque<(usize, usize)>> = HashMap::new();
        // The first exchange that records at this place belong to.
        let mut current = 0;
        let mut after_result = false;
        let mut last_other = 0;
        for (index, record) in records.iter().enumerate() {
            if record.role() != Role::Tool {
                last_other = index;
            }
            match record.role() {
                Role::Tool => {
                    after_result = true;
                    let id = record.tool_call_id().unwrap_or_default().into_owned();
                    let calls = waiting.entry(id.clone()).or_default();
                    let here = calls.partition_point(|(exchange, _)| *exchange < current);
                    let Some((exchange, call)) = calls.remove(if here < calls.len() { here } else { 0 }) else {
                        self.report(index, ChangeKind::OrphanRemoved { id });
                        continue;
                    };
                    if let Some(call) = exchanges.get_mut(exchange).and_then(|found| found.calls.get_mut(call)) {
                        call.result = Some(index);
                    }
                    if exchanges.get(exchange).is_some_and(|exchange| exchange.record != last_other) {
                        self.report(index, ChangeKind::ResultMoved { id });
                    }
                }
                Role::Assistant => {
                    if after_result {
                        current = exchanges.len();
                        after_result = false;
                    }
                    if record.has_calls() {
                        let ids = call_ids(record);
                        for (call, id) in ids.iter().enumerate() {
                            waiting.entry(id.clone()).or_default().push_back((exchanges.len(), call));
                        }
                        let calls = ids.into_iter().map(|id| Call { id, result: None }).collect();
                        exchanges.push(Exchange { record: index, calls });
                    }
                }
                Role::System | Role::User => {
                    current = exchanges.len();
                    after_result = false;
                }
            }
        }
        exchanges
    }

    fn rebuild(&mut self, records: &[Arc<Record>], exchanges: Vec<Exchange>) -> MessageList {
        let mut list = MessageList::new();
        self.lead(records, &mut list);
        let mut ids = Ids {
            taken: exchanges.iter().flat_map(|exchange| &exchange.calls).map(|call| call.id.clone()).collect(),
            ..Ids::default()
        };
        let mut exchanges = exchanges.into_iter().peekable();
        for (index, record) in records.iter().enumerate() {
            match record.role() {
                Role::System | Role::Tool => {}
                Role::User | Role::Assistant => match exchanges.next_if(|exchange| exchange.record == index) {
                    None => list.push_loaded(Arc::clone(record)),
                    Some(exchange) => {
                        let ids = self.unique_ids(&exchange, &mut ids);
                        self.exchange(&exchange, &ids, records, &mut list);
                    }
                },
            }
        }
        list
    }

    /// Puts the leading block together.
    fn lead(&mut self, records: &[Arc<Record>], list: &mut MessageList) {
        let systems: Vec<_> = records.iter().enumerate().filter(|(_, record)| record.role() == Role::System).collect();
        let leading = records.iter().take_while(|record| record.role() == Role::System).count();
        for (index, record) in &systems {
            if *index >= leading {
                self.report(*index, ChangeKind::SystemMoved);
            }
            if systems.len() > 1 && record.form() == Form::Parts {
                let (text, images) = flattened(&record.content());
                self.report(*index, ChangeKind::SystemFlattened { images });
                let mut value = record.to_value();
                value["content"] = Value::from(text);
                list.push_loaded(remade(&value, Arc::clone(record)));
            } else {
                list.push_loaded(Arc::clone(record));
            }
        }
    }

    /// An id for each call of the exchange that no other call has.
    fn unique_ids(&mut self, exchange: &Exchange, ids: &mut Ids) -> Vec<String> {
        let mut unique = Vec::with_capacity(exchange.calls.len());
        for call in &exchange.calls {
            let id = ids.unique(&call.id);
            if id != call.id {
                let (from, to) = (call.id.clone(), id.clone());
                self.report(exchange.record, ChangeKind::IdRenamed { from, to });
            }
            unique.push(id);
        }
        unique
    }

    /// Adds the record with the calls, then its results in their order, then those that were missing.
    fn exchange(&mut self, exchange: &Exchange, ids: &[String], records: &[Arc<Record>], list: &mut MessageList) {
        let Some(record) = records.get(exchange.record) else { return };
        let renamed = exchange.calls.iter().zip(ids).any(|(call, id)| call.id != *id);
        if renamed {
            let mut value = record.to_value();
            for (call, id) in value["tool_calls"].as_array_mut().into_iter().flatten().zip(ids) {
                call["id"] = Value::from(id.as_str());
            }
            list.push_loaded(remade(&value, Arc::clone(record)));
        } else {
            list.push_loaded(Arc::clone(record));
        }
        let mut results: Vec<_> =
            exchange.calls.iter().zip(ids).filter_map(|(call, id)| Some((call.result?, call, id))).collect();
        results.sort_by_key(|(index, ..)| *index);
        for (index, call, id) in results {
            let Some(result) = records.get(index) else { continue };
            if call.id == *id {
                list.push_loaded(Arc::clone(result));
            } else {
                let mut value = result.to_value();
                value["tool_call_id"] = Value::from(id.as_str());
                list.push_loaded(remade(&value, Arc::clone(result)));
            }
        }
        for (call, id) in exchange.calls.iter().zip(ids).filter(|(call, _)| call.result.is_none()) {
            self.report(exchange.record, ChangeKind::ResultAdded { id: call.id.clone() });
            list.push_loaded(Arc::new(Record::tool(MISSING_RESULT, id)));
        }
    }
}

/// The record of this value, which differs from `before` only in ways that keep its rules.
fn remade(value: &Value, before: Arc<Record>) -> Arc<Record> {
    Record::from_value(value, 1).map_or(before, Arc::new)
}

fn call_ids(record: &Record) -> Vec<String> {
    let calls = record.tool_calls().unwrap_or_default();
    let ids = calls.as_array().into_iter().flatten().filter_map(|call| call["id"].as_str());
    ids.map(str::to_owned).collect()
}

fn empty_parts(content: &Value) -> usize {
    content.as_array().into_iter().flatten().filter(|part| part["text"] == "").count()
}

/// The text of content parts, and how many of them are images.
fn flattened(content: &Value) -> (String, usize) {
    let parts = content.as_array().map_or(&[][..], Vec::as_slice);
    let texts: Vec<_> = parts.iter().filter_map(|part| part["text"].as_str()).collect();
    (texts.join("\n\n"), parts.len() - texts.len())
}
