//! Model rounds: the loop's and those of `infer`, from the check of the list to the judgement of the reply.

use std::sync::Arc;

use runvil_core::failure::{FailureKind, ModelFailure};
use runvil_core::judge::{Judgement, judge};
use runvil_core::list::MessageList;
use runvil_core::precheck::Precheck;
use runvil_core::record::{Record, RecordFields};
use runvil_core::reply::{CallArguments, Reply, Usage};
use runvil_core::request::Request;
use runvil_core::tools::ToolList;
use runvil_lua::failure::Failure;
use runvil_lua::models::ModelHandle;
use runvil_lua::request::Answer as LuaAnswer;
use serde_json::{Map, Value, json};

use crate::effect::{Answer, Effect, Origin, Round};
use crate::entry::{Looping, Overflow};
use crate::event::fields;
use crate::run::{Next, Run, Waiter};

/// What became of a loop round before or after it was sent.
enum Refusal {
    /// Raised as it is.
    Failed(Failure),
    /// Too large, with the reason.
    Overflow(&'static str),
}

impl Run {
    /// `models.loop` and `handle:loop`.
    pub(crate) fn start_loop(&mut self, chain: usize, handle: Option<Arc<ModelHandle>>) -> Next {
        if let Some(entry) = self.chains[chain].entry.as_mut() {
            entry.looping = Some(Looping { handle, overflow: None, retry_of: None });
        }
        self.attempt_round(chain)
    }

    /// Sends a round over the section's list, or answers the loop with why it cannot be sent.
    fn attempt_round(&mut self, chain: usize) -> Next {
        match self.send_loop_round(chain) {
            Ok(()) => Next::Parked,
            Err(refusal) => self.refused(chain, refusal),
        }
    }

    fn send_loop_round(&mut self, chain: usize) -> Result<(), Refusal> {
        let Some(entry) = self.chains[chain].entry.as_ref() else {
            return Err(Refusal::Failed(Failure::Internal("a loop outside a section".to_owned())));
        };
        let section = entry.name.clone();
        let conversation = entry.id.clone();
        if entry.vm.with_list(|list| list.is_empty()) {
            return Err(Refusal::Failed(Failure::Lua("messages must not be empty".to_owned())));
        }
        let named = entry.looping.as_ref().and_then(|looping| looping.handle.clone());
        let is_named = named.is_some();
        let Some(handle) = named.or_else(|| entry.vm.current_model()) else {
            return Err(Refusal::Failed(Failure::ModelBinding { section }));
        };
        let composed = entry.vm.with_list(MessageList::compose);
        self.recorder.report("tool_scope_validation_started", &section);
        self.recorder.report("tool_scope_validation_succeeded", &section);
        let request = match composed {
            Ok(request) => request,
            Err(error) => {
                self.report_failed_turn(&section, Origin::Chat, None);
                return Err(Refusal::Failed(Failure::Lua(error.to_string())));
            }
        };
        let precheck = request.precheck(handle.context, handle.max_tokens);
        if !precheck.admitted {
            self.report_failed_turn(&section, Origin::Chat, None);
            return Err(Refusal::Overflow("precheck"));
        }
        let round = self.round(&handle, is_named, Origin::Chat, section, request, precheck);
        let round = Round { conversation: Some(conversation), ..round };
        let waiter = Waiter::Loop { round: round.round };
        self.emit(chain, waiter, Effect::Round(Box::new(round)));
        Ok(())
    }

    /// Ends the loop with a failure, or hands an overflow to its compactor.
    fn refused(&mut self, chain: usize, refusal: Refusal) -> Next {
        let Some(entry) = self.chains[chain].entry.as_mut() else { return Next::Parked };
        let Some(looping) = entry.looping.as_mut() else { return Next::Parked };
        match refusal {
            Refusal::Failed(failure) => {
                entry.looping = None;
                Next::Answer(LuaAnswer::Failed(failure))
            }
            Refusal::Overflow(reason) => {
                if let Some(snapshot) = looping.retry_of.take() {
                    // One compaction a round: a retry that overflows ends the loop on the records from before it.
                    entry.vm.with_list(|list| list.restore(snapshot));
                    entry.looping = None;
                    Next::Answer(LuaAnswer::Failed(Failure::ContextExhausted { reason: reason.to_owned() }))
                } else {
                    let estimate = entry.vm.with_list(MessageList::estimate);
                    looping.overflow = Some(Overflow { reason, estimate });
                    Next::Answer(LuaAnswer::Compact { reason })
                }
            }
        }
    }

    /// Judges the list a loop's compactor left, structure before size, and retries the round.
    pub(crate) fn compacted(&mut self, chain: usize) -> Next {
        let Some(entry) = self.chains[chain].entry.as_mut() else { return Next::Parked };
        let snapshot = entry.vm.take_compaction();
        let (Some(looping), Some(snapshot)) = (entry.looping.as_mut(), snapshot) else { return Next::Parked };
        let Some(overflow) = looping.overflow.take() else { return Next::Parked };
        let failure = match entry.vm.with_list(MessageList::check) {
            Err(error) => Failure::Lua(error.to_string()),
            Ok(()) if entry.vm.with_list(MessageList::estimate) >= overflow.estimate => {
                Failure::ContextExhausted { reason: overflow.reason.to_owned() }
            }
            Ok(()) => {
                looping.retry_of = Some(snapshot);
                return self.attempt_round(chain);
            }
        };
        entry.vm.with_list(|list| list.restore(snapshot));
        entry.looping = None;
        Next::Answer(LuaAnswer::Failed(failure))
    }

    /// The answer to a loop's round.
    pub(crate) fn loop_answered(&mut self, chain: usize, round: u64, answer: Answer) -> Next {
        let Some(entry) = self.chains[chain].entry.as_ref() else { return Next::Parked };
        let section = entry.name.clone();
        let reply = match answer {
            Answer::Reply(reply) => *reply,
            Answer::ModelFailure(failure) => {
                self.report_failed_turn(&section, Origin::Chat, Some(round));
                let refusal = match failure.kind {
                    FailureKind::ContextOverflow => Refusal::Overflow("provider"),
                    _ => Refusal::Failed(Failure::Model(failure)),
                };
                return self.refused(chain, refusal);
            }
            _ => return self.refused(chain, Refusal::Failed(Failure::Cancelled)),
        };
        if let Err(failure) = readable(&reply) {
            self.report_failed_turn(&section, Origin::Chat, Some(round));
            return self.refused(chain, Refusal::Failed(Failure::Model(failure)));
        }
        self.report_reply(&section, Origin::Chat, round, &reply);
        let Some(entry) = self.chains[chain].entry.as_mut() else { return Next::Parked };
        let failure = match judge(&reply, 0) {
            Judgement::ToolRound => Failure::OutOfScopeTool {
                name: reply.tool_calls.first().map(|call| call.name.clone()).unwrap_or_default(),
                scope: Vec::new(),
            },
            Judgement::Empty(empty) => {
                Failure::EmptyReply { message: empty.message.to_owned(), finish_reason: empty.finish_reason }
            }
            Judgement::Terminal(text) => {
                let appended = text_record("assistant", &text)
                    .and_then(|record| entry.vm.append(record).map_err(|error| Failure::Internal(error.to_string())));
                match appended {
                    Ok(()) => {
                        entry.looping = None;
                        return Next::Answer(LuaAnswer::Done);
                    }
                    Err(failure) => failure,
                }
            }
            Judgement::CleanExit => Failure::Internal("a clean exit without an answered call".to_owned()),
        };
        entry.looping = None;
        Next::Answer(LuaAnswer::Failed(failure))
    }

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
        let precheck = request.precheck(handle.context, handle.max_tokens);
        if !precheck.admitted {
            self.report_failed_turn(&section, Origin::Infer, None);
            return Next::Answer(LuaAnswer::Failed(Failure::ContextExhausted { reason: "precheck".to_owned() }));
        }
        let round = self.round(&handle, is_named, Origin::Infer, section, request, precheck);
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
                if let Err(failure) = readable(&reply) {
                    self.report_failed_turn(&section, Origin::Infer, Some(round));
                    return Next::Answer(LuaAnswer::Failed(Failure::Model(failure)));
                }
                self.report_reply(&section, Origin::Infer, round, &reply);
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
                    FailureKind::ContextOverflow => Failure::ContextExhausted { reason: "provider".to_owned() },
                    _ => Failure::Model(failure),
                }
            }
            _ => Failure::Cancelled,
        };
        Next::Answer(LuaAnswer::Failed(failure))
    }

    fn round(
        &mut self,
        handle: &ModelHandle,
        is_named: bool,
        origin: Origin,
        section: String,
        request: Request,
        precheck: Precheck,
    ) -> Round {
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
            self.debug_bodies.insert(round, debug_body(&request, &handle.model_id, &options));
        }
        Round {
            round,
            origin,
            section,
            conversation: None,
            model: handle.model.clone(),
            model_id: handle.model_id.clone(),
            role: handle.role.clone(),
            handle: is_named.then(|| handle.label.clone()),
            estimate: request.estimate(),
            count: precheck.count,
            reserve: precheck.reserve,
            window: handle.context,
            request,
            tools: ToolList::default(),
            options,
        }
    }

    fn report_failed_turn(&mut self, section: &str, origin: Origin, round: Option<u64>) {
        if let Some(round) = round {
            self.debug_bodies.remove(&round);
        }
        let fields = fields([("round", round.into()), ("origin", origin.as_str().into())]);
        self.recorder.report_with("model_turn_failed", section, fields);
    }

    /// Counts a reply and reports it, in the order the specification gives a served round.
    fn report_reply(&mut self, section: &str, origin: Origin, round: u64, reply: &Reply) {
        self.turns += 1;
        if let Some(usage) = &reply.usage {
            add_usage(&mut self.usage, usage);
        }
        let turn = Value::from(self.turns.min(u64::from(u32::MAX)));
        let model = reply.model.as_deref().unwrap_or_default();
        let finish_reason = Value::from(reply.finish_reason.clone());
        let about = |more: Map<String, Value>| {
            let mut fields =
                fields([("turn", turn.clone()), ("round", round.into()), ("origin", origin.as_str().into())]);
            fields.extend(more);
            fields
        };
        let empty = match judge(reply, 0) {
            Judgement::Empty(empty) => Value::from(empty.message),
            _ => Value::Null,
        };
        // An empty reply has nothing to capture.
        if let Some(body) = self.debug_bodies.remove(&round).filter(|_| empty.is_null()) {
            self.recorder.report_with("request", section, about(fields([("body", body)])));
            let response = about(fields([
                ("body", response_body(reply)),
                ("finish_reason", finish_reason.clone()),
                ("reasoning_content", reply.reasoning.clone().into()),
            ]));
            self.recorder.report_with("response", section, response);
        }
        let completed = about(fields([("finish_reason", finish_reason.clone()), ("message", empty)]));
        self.recorder.report_with("model_turn_completed", section, completed);
        for message in &reply.degraded {
            let degraded = about(fields([("message", message.as_str().into())]));
            self.recorder.report_with("model_metadata_degraded", section, degraded);
        }
        if let Some(reasoning) = reply.reasoning.as_deref().filter(|reasoning| !reasoning.is_empty()) {
            let thinking = about(fields([("model", model.into()), ("text", reasoning.into())]));
            self.recorder.report_with("thinking", section, thinking);
        }
        if !reply.tool_calls.is_empty() {
            return;
        }
        let Some(text) = reply.product_text() else { return };
        if reply.finish_reason.as_deref() == Some("length") {
            self.recorder.report_with("model_turn_truncated", section, about(Map::new()));
        }
        let replied = about(fields([
            ("text", text.into()),
            ("finish_reason", finish_reason),
            ("model", model.into()),
            ("metrics", metrics(reply)),
        ]));
        self.recorder.report_with("assistant_reply", section, replied);
    }
}

/// Refuses a batch of tool calls that the provider cut short.
fn readable(reply: &Reply) -> Result<(), ModelFailure> {
    match reply.finish_reason.as_deref() {
        Some(reason @ ("length" | "content_filter")) if !reply.tool_calls.is_empty() => Err(ModelFailure {
            note: Some(format!(
                "tool-call batch truncated by finish_reason \"{reason}\": partial arguments must not execute"
            )),
            ..ModelFailure::new(FailureKind::MalformedResponse)
        }),
        _ => Ok(()),
    }
}

/// A request as the body of a `request` event.
fn debug_body(request: &Request, model: &str, options: &Map<String, Value>) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    body.insert("messages".to_owned(), request.messages().into());
    body.extend(options.iter().map(|(key, value)| (key.clone(), value.clone())));
    Value::Object(body)
}

/// A reply as the body of a `response` event: what was read of it, in the provider's terms.
fn response_body(reply: &Reply) -> Value {
    let calls: Vec<Value> = reply
        .tool_calls
        .iter()
        .map(|call| {
            let arguments = match &call.arguments {
                CallArguments::Absent => Value::Null,
                CallArguments::Text(text) => text.as_str().into(),
                CallArguments::Value(value) => value.clone(),
            };
            json!({ "id": call.id, "name": call.name, "arguments": arguments })
        })
        .collect();
    Value::Object(fields([
        ("model", reply.model.clone().into()),
        ("text", reply.text.clone().into()),
        ("tool_calls", if calls.is_empty() { Value::Null } else { calls.into() }),
        ("usage", reply.usage.as_ref().map_or(Value::Null, |usage| usage_fields(usage).into())),
    ]))
}

/// What an event tells of a reply's counts and timings.
fn metrics(reply: &Reply) -> Value {
    let mut metrics = Map::new();
    if let Some(usage) = &reply.usage {
        metrics.insert("usage".to_owned(), Value::Object(usage_fields(usage)));
    }
    if let Some(Value::Object(more)) = &reply.metrics {
        metrics.extend(more.iter().map(|(key, value)| (key.clone(), value.clone())));
    }
    if metrics.is_empty() { Value::Null } else { Value::Object(metrics) }
}

/// The reported counts by name.
pub(crate) fn usage_fields(usage: &Usage) -> Map<String, Value> {
    fields([
        ("prompt_tokens", usage.prompt_tokens.into()),
        ("completion_tokens", usage.completion_tokens.into()),
        ("total_tokens", usage.total_tokens.into()),
        ("reasoning_tokens", usage.reasoning_tokens.into()),
        ("cached_tokens", usage.cached_tokens.into()),
    ])
}

fn add_usage(sum: &mut Usage, usage: &Usage) {
    let add = |sum: &mut Option<u64>, count: Option<u64>| {
        if let Some(count) = count {
            *sum = Some(sum.unwrap_or(0).saturating_add(count));
        }
    };
    add(&mut sum.prompt_tokens, usage.prompt_tokens);
    add(&mut sum.completion_tokens, usage.completion_tokens);
    add(&mut sum.total_tokens, usage.total_tokens);
    add(&mut sum.reasoning_tokens, usage.reasoning_tokens);
    add(&mut sum.cached_tokens, usage.cached_tokens);
}

fn text_record(role: &str, text: &str) -> Result<Record, Failure> {
    let fields = RecordFields { role: Some(role.into()), content: Some(text.into()), ..RecordFields::default() };
    Record::from_fields(fields, 1).map_err(|error| Failure::Internal(error.to_string()))
}

/// The request of a prompt alone.
fn single(prompt: &str) -> Result<Request, Failure> {
    let mut list = MessageList::new();
    list.append(text_record("user", prompt)?)
        .and_then(|()| list.compose())
        .map_err(|error| Failure::Internal(error.to_string()))
}
