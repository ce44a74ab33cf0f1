//! The rounds of a loop: driving the tool-loop machine of the core over a section's list.

use std::sync::Arc;

use runvil_core::anchor::Anchor;
use runvil_core::estimator::Estimator;
use runvil_core::list::{ListSize, MessageList};
use runvil_core::precheck::{OverflowReason, Precheck};
use runvil_core::request::Request;
use runvil_core::tool_loop::{Dispatch, LoopError, RoundModel, Step, ToolLoop, read_calls};
use runvil_core::tools::ToolList;
use runvil_lua::failure::Failure;
use runvil_lua::models::ModelHandle;
use runvil_lua::request::Answer as LuaAnswer;
use runvil_lua::tools::CompactionStage;
use runvil_lua::vm::SectionVm;
use serde_json::{Map, Value};

use crate::effect::{Answer, Count, Effect, Origin, Round};
use crate::entry::Looping;
use crate::reports::debug_body;
use crate::run::{Next, Run, Waiter};

/// A request on its way out.
pub(crate) struct Outgoing<'a> {
    pub(crate) handle: &'a ModelHandle,
    /// Whether the call named the handle.
    pub(crate) is_named: bool,
    pub(crate) origin: Origin,
    /// The section's heading text.
    pub(crate) section: String,
    /// The section entry whose list it is; an infer has none.
    pub(crate) conversation: Option<String>,
    pub(crate) request: Request,
    pub(crate) precheck: Precheck,
    pub(crate) tools: ToolList,
}

/// The list of a round that is the retry after a compaction.
fn retried(looping: &Looping, vm: &SectionVm) -> Option<ListSize> {
    looping.machine.is_retry().then(|| vm.with_list(MessageList::size))
}

impl Run {
    /// `models.loop` and `handle:loop`.
    pub(crate) fn start_loop(&mut self, chain: usize, handle: Option<Arc<ModelHandle>>) -> Next {
        let cap = self.prompt.document().frontmatter.max_tool_iterations.map_or(self.params.rounds, u32::from);
        if let Some(entry) = self.chains[chain].entry.as_mut() {
            entry.looping = Some(Looping::new(handle, ToolLoop::new(cap).charged_to(entry.vm.ledger())));
        }
        self.begin_round(chain)
    }

    /// Begins a round: something to send, a model, the tools; then the request itself.
    pub(crate) fn begin_round(&mut self, chain: usize) -> Next {
        let Some(entry) = self.chains[chain].entry.as_ref() else { return Next::Parked };
        if let Err(error) = entry.vm.with_list(|list| ToolLoop::opens(list)) {
            return self.loop_failed(chain, error.into());
        }
        if self.loop_model(chain).is_none() {
            let section = entry.name.clone();
            return self.loop_failed(chain, Failure::ModelBinding { section });
        }
        self.validate_scope(chain)
    }

    /// The model of a loop's next round: its handle, or else the section's current model.
    fn loop_model(&self, chain: usize) -> Option<Arc<ModelHandle>> {
        let entry = self.chains[chain].entry.as_ref()?;
        let named = entry.looping.as_ref()?.handle.clone();
        named.or_else(|| entry.vm.current_model())
    }

    /// Sends the round whose tools are ready.
    pub(crate) fn send_round(&mut self, chain: usize) -> Next {
        let Some(handle) = self.loop_model(chain) else { return Next::Parked };
        let Some(entry) = self.chains[chain].entry.as_mut() else { return Next::Parked };
        let (Some(looping), Some(scope)) = (entry.looping.as_mut(), entry.scope.as_ref()) else { return Next::Parked };
        let request = match entry.vm.with_list(|list| looping.machine.compose(list)) {
            Ok(request) => request,
            Err(error) => {
                let section = entry.name.clone();
                self.report_failed_turn(&section, Origin::Chat, None);
                return self.loop_failed(chain, error.into());
            }
        };
        let tokens = match &handle.estimator {
            Estimator::Specified => request.estimate(),
            Estimator::Detailed { image_tokens } => entry.details.count(&request, &scope.list, *image_tokens),
            Estimator::External { .. } => {
                let count = Count {
                    model: handle.model.clone(),
                    role: handle.role.clone(),
                    conversation: Some(entry.id.clone()),
                    request: request.clone(),
                    tools: scope.list.clone(),
                };
                self.emit(chain, Waiter::Count { request, handle }, Effect::CountTokens(Box::new(count)));
                return Next::Parked;
            }
        };
        self.admit_round(chain, &handle, request, tokens)
    }

    /// Prechecks the round's request, counted as so many tokens, and sends it.
    pub(crate) fn admit_round(&mut self, chain: usize, handle: &ModelHandle, request: Request, tokens: u64) -> Next {
        let Some(entry) = self.chains[chain].entry.as_mut() else { return Next::Parked };
        let (Some(looping), Some(scope)) = (entry.looping.as_mut(), entry.scope.as_ref()) else { return Next::Parked };
        let model = RoundModel {
            name: &handle.model,
            context: handle.context,
            max_tokens: handle.max_tokens,
            must_shrink: handle.estimator.is_specified(),
        };
        let retried = retried(looping, &entry.vm);
        let step = entry.vm.with_list(|list| looping.machine.admit(list, request, model, &entry.anchor, tokens));
        let section = entry.name.clone();
        let Step::Send { request, precheck } = step else {
            self.report_failed_turn(&section, Origin::Chat, None);
            self.report_restored(chain, retried, &step);
            return self.follow(chain, step);
        };
        let outgoing = Outgoing {
            handle,
            is_named: looping.handle.is_some(),
            origin: Origin::Chat,
            section,
            conversation: Some(entry.id.clone()),
            request,
            precheck,
            tools: scope.list.clone(),
        };
        let round = self.outgoing(outgoing);
        let waiter = Waiter::Loop { round: round.round };
        self.emit(chain, waiter, Effect::Round(Box::new(round)));
        Next::Parked
    }

    /// Does what the machine says.
    pub(crate) fn follow(&mut self, chain: usize, step: Step) -> Next {
        match step {
            Step::Round => self.begin_round(chain),
            Step::Calls(calls) => self.issue_calls(chain, &calls),
            Step::Send { .. } | Step::Wait => Next::Parked,
            Step::Compact(overflow) => Next::Answer(LuaAnswer::Compact(overflow)),
            Step::Finished => {
                self.end_loop(chain);
                Next::Answer(LuaAnswer::Done)
            }
            Step::Failed(error) => {
                if matches!(error, LoopError::OutOfScope { .. }) {
                    self.report_chunk(chain, "tool_call_failed");
                }
                self.loop_failed(chain, error.into())
            }
        }
    }

    pub(crate) fn loop_failed(&mut self, chain: usize, failure: Failure) -> Next {
        self.end_loop(chain);
        Next::Answer(LuaAnswer::Failed(failure))
    }

    fn end_loop(&mut self, chain: usize) {
        if let Some(entry) = self.chains[chain].entry.as_mut() {
            entry.looping = None;
        }
    }

    /// The loop's compactor has returned.
    pub(crate) fn compacted(&mut self, chain: usize) -> Next {
        let Some(entry) = self.chains[chain].entry.as_mut() else { return Next::Parked };
        let snapshot = entry.vm.take_compaction();
        let (Some(looping), Some(snapshot)) = (entry.looping.as_mut(), snapshot) else { return Next::Parked };
        let left = entry.vm.with_list(MessageList::size);
        let before = entry.vm.with_list(|list| {
            let mut before = list.clone();
            before.restore(snapshot.clone());
            before.size()
        });
        let reason = looping.machine.overflow_reason().map_or("", OverflowReason::as_str);
        let step = entry.vm.with_list(|list| looping.machine.compacted(list, snapshot));
        let section = entry.name.clone();
        match &step {
            Step::Round => {
                self.recorder.compaction(&section, CompactionStage::Accepted, reason, Some(before), left);
            }
            _ => self.recorder.compaction(&section, CompactionStage::Restored, reason, Some(left), before),
        }
        self.follow(chain, step)
    }

    /// Reports that a retry which overflowed again has put back the records from before its compaction.
    fn report_restored(&mut self, chain: usize, retried: Option<ListSize>, step: &Step) {
        let (Some(left), Step::Failed(LoopError::ContextExhausted(overflow))) = (retried, step) else { return };
        let Some(entry) = self.chains[chain].entry.as_ref() else { return };
        let now = entry.vm.with_list(MessageList::size);
        self.recorder.compaction(&entry.name, CompactionStage::Restored, overflow.reason.as_str(), Some(left), now);
    }

    /// The answer to a loop's round.
    pub(crate) fn loop_answered(&mut self, chain: usize, round: u64, answer: Answer) -> Next {
        let Some(entry) = self.chains[chain].entry.as_ref() else { return Next::Parked };
        let section = entry.name.clone();
        let read = match answer {
            Answer::Reply(reply) => {
                self.count_usage(&reply);
                read_calls(&reply).map(|calls| (reply, calls))
            }
            Answer::ModelFailure(failure) => Err(failure),
            _ => return self.loop_failed(chain, Failure::Cancelled),
        };
        let (reply, calls) = match read {
            Ok(read) => read,
            Err(failure) => {
                self.report_failed_turn(&section, Origin::Chat, Some(round));
                let Some(entry) = self.chains[chain].entry.as_mut() else { return Next::Parked };
                let Some(looping) = entry.looping.as_mut() else { return Next::Parked };
                let retried = retried(looping, &entry.vm);
                let step = entry.vm.with_list(|list| looping.machine.request_failed(list, failure));
                self.report_restored(chain, retried, &step);
                return self.follow(chain, step);
            }
        };
        self.report_reply(&section, Origin::Chat, round, &reply, &calls);
        let turn = self.turns;
        let Some(entry) = self.chains[chain].entry.as_mut() else { return Next::Parked };
        let scope: Vec<(&str, Dispatch)> = entry.scope.as_ref().map(|scope| scope.dispatches()).unwrap_or_default();
        let Some(looping) = entry.looping.as_mut() else { return Next::Parked };
        looping.start_reports(turn, calls.len());
        let anchor = &mut entry.anchor;
        let step = entry.vm.with_list(|list| looping.machine.replied(list, anchor, &reply, calls, &scope));
        self.follow(chain, step)
    }

    /// Moves a chain's machine on and does what it says.
    pub(crate) fn drive(
        &mut self,
        chain: usize,
        advance: impl FnOnce(&mut Looping, &mut MessageList, &mut Anchor) -> Step,
    ) -> Next {
        let Some(entry) = self.chains[chain].entry.as_mut() else { return Next::Parked };
        let Some(looping) = entry.looping.as_mut() else { return Next::Parked };
        let anchor = &mut entry.anchor;
        let step = entry.vm.with_list(|list| advance(looping, list, anchor));
        self.follow(chain, step)
    }

    /// Numbers a request and describes it for the Harness.
    pub(crate) fn outgoing(&mut self, outgoing: Outgoing<'_>) -> Round {
        let Outgoing { handle, is_named, origin, section, conversation, request, precheck, tools } = outgoing;
        let round = self.requests;
        self.requests += 1;
        let mut options = Map::new();
        if let Some(temperature) = handle.temperature {
            options.insert("temperature".to_owned(), Value::from(temperature));
        }
        if let Some(max_tokens) = handle.max_tokens {
            options.insert("max_tokens".to_owned(), Value::from(max_tokens));
        }
        if let Some(thinking) = handle.thinking.filter(|_| handle.switchable) {
            options.insert("thinking".to_owned(), Value::from(thinking));
        }
        if self.params.debug {
            self.debug_bodies.insert(round, debug_body(&request, &handle.model_id, &tools, &options));
        }
        Round {
            round,
            origin,
            section,
            conversation,
            model: handle.model.clone(),
            model_id: handle.model_id.clone(),
            role: handle.role.clone(),
            handle: is_named.then(|| handle.label.clone()),
            estimate: request.estimate(),
            count: precheck.count,
            reserve: precheck.reserve,
            window: handle.context,
            estimator: handle.estimator.name().map(str::to_owned),
            request,
            tools,
            options,
        }
    }
}
