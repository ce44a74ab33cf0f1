//! The tool loop as a machine: answers go in, decisions come out.
//!
//! It runs the rounds of one loop call over a list: which requests are sent, when tools run, what is recorded, when the
//! list is compacted, and how the call ends. It performs nothing and waits for nothing; a driver does what a [`Step`]
//! says and reports back. The list it works on is passed to every call, because others read and edit it in between.

mod batch;
mod error;
mod read;

use std::sync::Arc;

pub use batch::{CallAnswer, Dispatch};
pub use error::{LoopError, out_of_scope_message};
pub use read::{ToolCall, read_calls, read_calls_leniently};

use crate::anchor::Anchor;
use crate::failure::{FailureKind, ModelFailure};
use crate::judge::{Judgement, judge};
use crate::ledger::Ledger;
use crate::list::{MessageList, Snapshot};
use crate::precheck::{ContextOverflow, OverflowReason, Precheck};
use crate::record::Record;
use crate::reply::Reply;
use crate::request::Request;
use batch::Batch;

/// The round cap when nothing else is asked for.
pub const DEFAULT_ROUND_CAP: u32 = 24;

/// The model a round runs on, as far as its window matters.
#[derive(Debug, Clone, Copy)]
pub struct RoundModel<'a> {
    /// The name that usage is remembered under.
    pub name: &'a str,
    /// The context window, in tokens.
    pub context: u64,
    /// The `max_tokens` setting of the round.
    pub max_tokens: Option<u64>,
    /// Whether a compaction must shrink the specified estimate. The rules of the language say yes; with another
    /// estimator the retry's own precheck decides.
    pub must_shrink: bool,
}

/// What the driver does next.
#[derive(Debug)]
pub enum Step {
    /// Start a round: find the model, render the tools, then call [`ToolLoop::send`].
    Round,
    /// Send this request; answer with [`ToolLoop::replied`] or [`ToolLoop::request_failed`].
    Send {
        /// The messages.
        request: Request,
        /// What the precheck found.
        precheck: Precheck,
    },
    /// Perform these calls of the batch, counted from 0, all at once; answer each with [`ToolLoop::call_answered`].
    Calls(Vec<usize>),
    /// Calls are still out.
    Wait,
    /// Run the compactor with this reason, then call [`ToolLoop::compacted`]. A compactor that raises ends the loop; the
    /// driver puts the records back.
    Compact(ContextOverflow),
    /// The loop has ended; the terminal record is the list's last.
    Finished,
    /// The loop has failed.
    Failed(LoopError),
}

/// One loop call between its first round and its end.
#[derive(Debug)]
pub struct ToolLoop {
    cap: u32,
    ledger: Option<Ledger>,
    keeps_finished: bool,
    must_shrink: bool,
    /// Rounds started.
    rounds: u32,
    /// Tool calls answered, failed ones included.
    answered: u64,
    /// The request that is out, and the name of its model.
    sent: Option<(String, Request)>,
    batch: Option<Batch>,
    refused: Option<Refused>,
    /// The records from before the compaction whose retry is under way.
    retry_of: Option<Snapshot>,
}

/// A round that was refused as too large.
#[derive(Debug)]
struct Refused {
    overflow: ContextOverflow,
    /// The plain estimate of the refused list, in tokens.
    estimate: u64,
}

impl ToolLoop {
    /// A loop call of at most `cap` rounds. It begins as if it had answered [`Step::Round`].
    pub fn new(cap: u32) -> Self {
        Self {
            cap,
            ledger: None,
            keeps_finished: false,
            must_shrink: true,
            rounds: 0,
            answered: 0,
            sent: None,
            batch: None,
            refused: None,
            retry_of: None,
        }
    }

    /// Charges the records it makes to a ledger.
    #[must_use]
    pub fn charged_to(mut self, ledger: Ledger) -> Self {
        self.ledger = Some(ledger);
        self
    }

    /// Whether a batch with a call that was given up is recorded before the loop ends, the results of the other calls
    /// with it. The rules of the language say no.
    #[must_use]
    pub fn keeping_finished(mut self, keeps: bool) -> Self {
        self.keeps_finished = keeps;
        self
    }

    /// Rounds started so far; the retry after a compaction is not one of its own.
    pub fn rounds(&self) -> u32 {
        self.rounds
    }

    /// Tool calls answered so far, failed ones included.
    pub fn answered(&self) -> u64 {
        self.answered
    }

    /// The reason of the compaction under way.
    pub fn overflow_reason(&self) -> Option<OverflowReason> {
        self.refused.as_ref().map(|refused| refused.overflow.reason)
    }

    /// Whether the round under way is the retry after a compaction.
    pub fn is_retry(&self) -> bool {
        self.retry_of.is_some()
    }

    /// A call of the batch under way.
    pub fn call(&self, index: usize) -> Option<&ToolCall> {
        self.batch.as_ref()?.call(index)
    }

    /// The first check of a round, before its model is looked up: the list holds something.
    pub fn opens(list: &MessageList) -> Result<(), LoopError> {
        if list.is_empty() { Err(LoopError::Rule(crate::error::ListError::list_empty())) } else { Ok(()) }
    }

    /// Starts a round: checks and composes the list. [`ToolLoop::admit`] comes next.
    pub fn compose(&mut self, list: &mut MessageList) -> Result<Request, LoopError> {
        if self.retry_of.is_none() {
            self.rounds += 1;
        }
        list.compose().map_err(LoopError::Rule)
    }

    /// Checks and composes the list, and prechecks the request by the specified estimate.
    pub fn send(&mut self, list: &mut MessageList, model: RoundModel<'_>, anchor: &Anchor) -> Step {
        match self.compose(list) {
            Ok(request) => {
                let estimate = request.estimate();
                self.admit(list, request, model, anchor, estimate)
            }
            Err(error) => self.fail(error),
        }
    }

    /// Prechecks a composed request that was counted as `tokens`; an anchor that applies counts instead.
    pub fn admit(
        &mut self,
        list: &mut MessageList,
        request: Request,
        model: RoundModel<'_>,
        anchor: &Anchor,
        tokens: u64,
    ) -> Step {
        let count = anchor.count(&request, Some(model.name)).unwrap_or(tokens);
        self.must_shrink = model.must_shrink;
        let precheck = Precheck::new(count, model.context, model.max_tokens);
        if !precheck.admitted {
            return self.overflowed(list, ContextOverflow::PRECHECK);
        }
        self.sent = Some((model.name.to_owned(), request.clone()));
        Step::Send { request, precheck }
    }

    /// Takes the reply to the request that is out, with the calls that [`read_calls`] read of it.
    ///
    /// `scope` says how a call by this name is performed; `None` is a name that was not offered. One such name in a batch
    /// keeps all of it from running.
    pub fn replied(
        &mut self,
        list: &mut MessageList,
        anchor: &mut Anchor,
        reply: &Reply,
        calls: Vec<ToolCall>,
        scope: &[(&str, Dispatch)],
    ) -> Step {
        if let Some((model, request)) = self.sent.take() {
            anchor.served(&model, &request, reply.usage.as_ref());
        }
        self.retry_of = None;
        match judge(reply, self.answered) {
            Judgement::ToolRound => self.start_batch(list, calls, scope),
            Judgement::Terminal(text) => self.finish(list, &text),
            Judgement::CleanExit => self.finish(list, ""),
            Judgement::Empty(empty) => self.fail(LoopError::EmptyReply(empty)),
        }
    }

    fn start_batch(&mut self, list: &mut MessageList, calls: Vec<ToolCall>, scope: &[(&str, Dispatch)]) -> Step {
        let mut batch = Vec::with_capacity(calls.len());
        for call in calls {
            let Some((_, dispatch)) = scope.iter().find(|(name, _)| *name == call.name) else {
                let scope = scope.iter().map(|(name, _)| (*name).to_owned()).collect();
                return self.fail(LoopError::OutOfScope { name: call.name, scope });
            };
            batch.push((call, *dispatch));
        }
        self.batch = Some(Batch::new(batch));
        self.next_calls(list)
    }

    /// Hands out the next calls, or records the batch and goes on to the next round.
    fn next_calls(&mut self, list: &mut MessageList) -> Step {
        let Some(batch) = self.batch.as_mut() else { return Step::Wait };
        if batch.is_dropped() {
            if let Some(batch) = self.batch.take_if(|_| self.keeps_finished)
                && let Err(error) = list.extend(batch.into_records(self.ledger.as_ref()))
            {
                return self.fail(LoopError::Rule(error));
            }
            return self.fail(LoopError::Cancelled);
        }
        let calls = batch.hand_out();
        if !calls.is_empty() {
            return Step::Calls(calls);
        }
        let Some(batch) = self.batch.take() else { return Step::Wait };
        self.answered += batch.len() as u64;
        if let Err(error) = list.extend(batch.into_records(self.ledger.as_ref())) {
            return self.fail(LoopError::Rule(error));
        }
        if self.rounds >= self.cap { self.fail(LoopError::Exhausted) } else { Step::Round }
    }

    /// Takes the answer to one call of the batch, counted from 0. The calls of one [`Step::Calls`] can be answered in any
    /// order. An answer that nothing waits for is ignored.
    pub fn call_answered(&mut self, list: &mut MessageList, index: usize, answer: CallAnswer) -> Step {
        match self.batch.as_mut().and_then(|batch| batch.answer(index, answer)) {
            Some(true) => self.next_calls(list),
            _ => Step::Wait,
        }
    }

    fn finish(&mut self, list: &mut MessageList, text: &str) -> Step {
        let mut record = Record::assistant(text);
        if let Some(ledger) = &self.ledger {
            record = record.charged_to(ledger);
        }
        match list.append(Arc::new(record)) {
            Ok(()) => Step::Finished,
            Err(error) => self.fail(LoopError::Rule(error)),
        }
    }

    /// Takes the failure of the request that is out. An overflow goes to the compactor, every other failure ends the loop.
    pub fn request_failed(&mut self, list: &mut MessageList, failure: ModelFailure) -> Step {
        self.sent = None;
        match failure.kind {
            FailureKind::ContextOverflow => {
                let ModelFailure { used, limit, .. } = failure;
                self.overflowed(list, ContextOverflow { reason: OverflowReason::Provider, used, limit })
            }
            _ => self.fail(LoopError::Model(failure)),
        }
    }

    /// Hands an overflow to the compactor; the retry of a round gets none and ends on the records from before it.
    fn overflowed(&mut self, list: &mut MessageList, overflow: ContextOverflow) -> Step {
        if let Some(snapshot) = self.retry_of.take() {
            list.restore(snapshot);
            return self.fail(LoopError::ContextExhausted(overflow));
        }
        self.refused = Some(Refused { overflow, estimate: list.estimate() });
        Step::Compact(overflow)
    }

    /// Judges the list that the compactor left, structure before size, against the records from before it; then the round
    /// is tried once more. A list that breaks a rule is put back.
    pub fn compacted(&mut self, list: &mut MessageList, before: Snapshot) -> Step {
        let Some(refused) = self.refused.take() else { return Step::Wait };
        let broken = match list.check() {
            Err(error) => Some(LoopError::Rule(error)),
            Ok(()) if self.must_shrink && list.estimate() >= refused.estimate => {
                Some(LoopError::ContextExhausted(refused.overflow))
            }
            Ok(()) => None,
        };
        if let Some(error) = broken {
            list.restore(before);
            return self.fail(error);
        }
        self.retry_of = Some(before);
        Step::Round
    }

    /// Ends the loop with an error that its driver met on the machine's behalf.
    pub fn fail(&mut self, error: LoopError) -> Step {
        self.batch = None;
        self.sent = None;
        Step::Failed(error)
    }
}
