//! The batch of a tool round: which calls run when, and the records it becomes once every call is answered.

use std::sync::Arc;

use crate::ledger::Ledger;
use crate::record::Record;
use crate::tool_loop::read::ToolCall;

/// How a call is performed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dispatch {
    /// Together with the bound calls next to it.
    Bound,
    /// By itself, between its neighbours.
    Alone,
}

/// The answer to one call of a batch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallAnswer {
    /// The text that becomes the call's tool record: the output, or the words of a failure.
    Text(String),
    /// The call was given up.
    Dropped,
}

/// What stands in the tool record of a call that was given up, where such a batch is recorded at all.
const DROPPED_TEXT: &str = "the call was cancelled";

/// The calls of one tool round, in the model's order.
#[derive(Debug)]
pub(crate) struct Batch {
    calls: Vec<(ToolCall, Dispatch)>,
    answers: Vec<Option<CallAnswer>>,
    /// The calls from here on were not handed out yet.
    next: usize,
    /// Calls handed out and not answered.
    open: usize,
}

impl Batch {
    pub(crate) fn new(calls: Vec<(ToolCall, Dispatch)>) -> Self {
        Self { answers: vec![None; calls.len()], calls, next: 0, open: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.calls.len()
    }

    pub(crate) fn call(&self, index: usize) -> Option<&ToolCall> {
        self.calls.get(index).map(|(call, _)| call)
    }

    /// Hands out the next calls: one that runs alone, or all bound ones up to the next such. Empty when none is left.
    pub(crate) fn hand_out(&mut self) -> Vec<usize> {
        let start = self.next;
        let end = match self.calls.get(start) {
            None => start,
            Some((_, Dispatch::Alone)) => start + 1,
            Some((_, Dispatch::Bound)) => {
                let bound = self.calls[start..].iter().take_while(|(_, dispatch)| *dispatch == Dispatch::Bound);
                start + bound.count()
            }
        };
        self.next = end;
        self.open = end - start;
        (start..end).collect()
    }

    /// Takes an answer. Gives whether every call handed out is answered now; `None` for a call that waits for none.
    pub(crate) fn answer(&mut self, index: usize, answer: CallAnswer) -> Option<bool> {
        let place = self.answers.get_mut(index).filter(|place| place.is_none() && index < self.next)?;
        *place = Some(answer);
        self.open -= 1;
        Some(self.open == 0)
    }

    /// Whether a call was given up.
    pub(crate) fn is_dropped(&self) -> bool {
        self.answers.contains(&Some(CallAnswer::Dropped))
    }

    /// The assistant record with every call, then one tool record per call.
    pub(crate) fn into_records(self, ledger: Option<&Ledger>) -> Vec<Arc<Record>> {
        let charge = |record: Record| {
            Arc::new(match ledger {
                Some(ledger) => record.charged_to(ledger),
                None => record,
            })
        };
        let calls = self.calls.iter().map(|(call, _)| (call.id.as_str(), call.name.as_str(), &call.arguments));
        let mut records = Vec::with_capacity(self.calls.len() + 1);
        records.push(charge(Record::assistant_with_calls("", calls)));
        for ((call, _), answer) in self.calls.iter().zip(&self.answers) {
            let text = match answer {
                Some(CallAnswer::Text(text)) => text.as_str(),
                Some(CallAnswer::Dropped) | None => DROPPED_TEXT,
            };
            records.push(charge(Record::tool(text, &call.id)));
        }
        records
    }
}
