//! `models.infer` and `handle:infer`: one round over a prompt alone.

use std::sync::Arc;

use runvil_core::estimator::{DetailCounter, Estimator};
use runvil_core::failure::{FailureKind, ModelFailure};
use runvil_core::judge::{Judgement, judge};
use runvil_core::list::MessageList;
use runvil_core::precheck::{ContextOverflow, OverflowReason, Precheck};
use runvil_core::record::Record;
use runvil_core::request::Request;
use runvil_core::tool_loop::read_calls;
use runvil_core::tools::ToolList;
use runvil_lua::failure::Failure;
use runvil_lua::models::ModelHandle;
use runvil_lua::request::Answer as LuaAnswer;

use crate::effect::{Answer, Count, Effect, Origin};
use crate::rounds::Outgoing;
use crate::run::{Next, Run, Waiter};

impl Run {
    /// `models.infer` and `handle:infer`: one round over the prompt alone.
    pub(crate) fn start_infer(&mut self, chain: usize, named: Option<Arc<ModelHandle>>, prompt: &str) -> Next {
        let Some(entry) = self.chains[chain].entry.as_ref() else { return Next::Parked };
        let section = entry.name.clone();
        let is_named = named.is_some();
        let Some(handle) = named.or_else(|| entry.vm.current_model()) else {
            return Next::Answer(LuaAnswer::Failed(Failure::ModelBinding { section }));
        };
        self.recorder.report("tool_scope_validation_started", &section);
        self.recorder.report("tool_scope_validation_succeeded", &section);
        let request = match single(prompt) {
            Ok(request) => request,
            Err(failure) => return Next::Answer(LuaAnswer::Failed(failure)),
        };
        let tokens = match &handle.estimator {
            Estimator::Specified => request.estimate(),
            Estimator::Detailed { image_tokens } => {
                DetailCounter::new().count(&request, &ToolList::default(), *image_tokens)
            }
            Estimator::External { .. } => {
                let count = Count {
                    model: handle.model.clone(),
                    role: handle.role.clone(),
                    conversation: None,
                    request: request.clone(),
                    tools: ToolList::default(),
                };
                let waiter = Waiter::CountInfer { request, handle, is_named };
                self.emit(chain, waiter, Effect::CountTokens(Box::new(count)));
                return Next::Parked;
            }
        };
        self.admit_infer(chain, &handle, is_named, request, tokens)
    }

    /// Prechecks an infer's request, counted as so many tokens, and sends it.
    pub(crate) fn admit_infer(
        &mut self,
        chain: usize,
        handle: &ModelHandle,
        is_named: bool,
        request: Request,
        tokens: u64,
    ) -> Next {
        let Some(entry) = self.chains[chain].entry.as_ref() else { return Next::Parked };
        let section = entry.name.clone();
        let precheck = Precheck::new(tokens, handle.context, handle.max_tokens);
        if !precheck.admitted {
            self.report_failed_turn(&section, Origin::Infer, None);
            return Next::Answer(LuaAnswer::Failed(Failure::exhausted(ContextOverflow::PRECHECK)));
        }
        let outgoing = Outgoing {
            handle,
            is_named,
            origin: Origin::Infer,
            section,
            conversation: None,
            request,
            precheck,
            tools: ToolList::default(),
        };
        let round = self.outgoing(outgoing);
        let waiter = Waiter::Infer { round: round.round };
        self.emit(chain, waiter, Effect::Round(Box::new(round)));
        Next::Parked
    }

    /// The answer to an infer's round.
    pub(crate) fn infer_answered(&mut self, chain: usize, round: u64, answer: Answer) -> Next {
        let Some(entry) = self.chains[chain].entry.as_ref() else { return Next::Parked };
        let section = entry.name.clone();
        let failure = match answer {
            Answer::Reply(reply) => {
                self.count_usage(&reply);
                let calls = match read_calls(&reply) {
                    Ok(calls) => calls,
                    Err(failure) => {
                        self.report_failed_turn(&section, Origin::Infer, Some(round));
                        return Next::Answer(LuaAnswer::Failed(Failure::Model(failure)));
                    }
                };
                self.report_reply(&section, Origin::Infer, round, &reply, &calls);
                match judge(&reply, 0) {
                    Judgement::Terminal(text) => return Next::Answer(LuaAnswer::Text(text)),
                    Judgement::Empty(empty) => {
                        Failure::EmptyReply { message: empty.message.to_owned(), finish_reason: empty.finish_reason }
                    }
                    Judgement::ToolRound | Judgement::CleanExit => {
                        Failure::Lua("model inference received tool calls but no tools were advertised".to_owned())
                    }
                }
            }
            Answer::ModelFailure(failure) => {
                self.report_failed_turn(&section, Origin::Infer, Some(round));
                match failure.kind {
                    FailureKind::ContextOverflow => {
                        let ModelFailure { used, limit, .. } = failure;
                        Failure::exhausted(ContextOverflow { reason: OverflowReason::Provider, used, limit })
                    }
                    _ => Failure::Model(failure),
                }
            }
            _ => Failure::Cancelled,
        };
        Next::Answer(LuaAnswer::Failed(failure))
    }
}

/// The request of a prompt alone.
fn single(prompt: &str) -> Result<Request, Failure> {
    let mut list = MessageList::new();
    list.append(Record::user(prompt))
        .and_then(|()| list.compose())
        .map_err(|error| Failure::Internal(error.to_string()))
}
