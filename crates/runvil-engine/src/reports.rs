//! What a run reports of its model rounds.

use std::sync::atomic::Ordering;

use runvil_core::judge::{Judgement, judge};
use runvil_core::reply::{CallArguments, Reply, Usage};
use runvil_core::request::Request;
use runvil_core::tool_loop::ToolCall;
use runvil_core::tools::ToolList;
use serde_json::{Map, Value, json};

use crate::effect::Origin;
use crate::event::fields as event_fields;
use crate::run::Run;

impl Run {
    pub(crate) fn report_failed_turn(&mut self, section: &str, origin: Origin, round: Option<u64>) {
        if let Some(round) = round {
            self.debug_bodies.remove(&round);
        }
        let fields = event_fields([("round", round.into()), ("origin", origin.as_str().into())]);
        self.recorder.report_with("model_turn_failed", section, fields);
    }

    /// Counts a reply and reports it, in the order the specification gives a served round.
    pub(crate) fn report_reply(
        &mut self,
        section: &str,
        origin: Origin,
        round: u64,
        reply: &Reply,
        calls: &[ToolCall],
    ) {
        self.turns += 1;
        self.environment.turns.store(self.turns, Ordering::Relaxed);
        if let Some(usage) = &reply.usage {
            add_usage(&mut self.usage, usage);
        }
        let turn = Value::from(self.turns.min(u64::from(u32::MAX)));
        let model = reply.model.as_deref().unwrap_or_default();
        let finish_reason = Value::from(reply.finish_reason.clone());
        let about = |more: Map<String, Value>| {
            let mut fields =
                event_fields([("turn", turn.clone()), ("round", round.into()), ("origin", origin.as_str().into())]);
            fields.extend(more);
            fields
        };
        let empty = match judge(reply, 0) {
            Judgement::Empty(empty) => Value::from(empty.message),
            _ => Value::Null,
        };
        // An empty reply has nothing to capture.
        if let Some(body) = self.debug_bodies.remove(&round).filter(|_| empty.is_null()) {
            self.recorder.report_with("request", section, about(event_fields([("body", body)])));
            let response = about(event_fields([
                ("body", response_body(reply)),
                ("finish_reason", finish_reason.clone()),
                ("reasoning_content", reply.reasoning.clone().into()),
            ]));
            self.recorder.report_with("response", section, response);
        }
        let completed = about(event_fields([("finish_reason", finish_reason.clone()), ("message", empty)]));
        self.recorder.report_with("model_turn_completed", section, completed);
        for message in &reply.degraded {
            let degraded = about(event_fields([("message", message.as_str().into())]));
            self.recorder.report_with("model_metadata_degraded", section, degraded);
        }
        if let Some(reasoning) = reply.reasoning.as_deref().filter(|reasoning| !reasoning.is_empty()) {
            let thinking = about(event_fields([("model", model.into()), ("text", reasoning.into())]));
            self.recorder.report_with("thinking", section, thinking);
        }
        if !calls.is_empty() {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| json!({ "id": call.id, "name": call.name, "arguments": call.arguments }))
                .collect();
            let asked = about(event_fields([("model", model.into()), ("calls", calls.into())]));
            self.recorder.report_with("assistant_tool_calls", section, asked);
            return;
        }
        let Some(text) = reply.product_text() else { return };
        if reply.finish_reason.as_deref() == Some("length") {
            self.recorder.report_with("model_turn_truncated", section, about(Map::new()));
        }
        let replied = about(event_fields([
            ("text", text.into()),
            ("finish_reason", finish_reason),
            ("model", model.into()),
            ("metrics", metrics(reply)),
        ]));
        self.recorder.report_with("assistant_reply", section, replied);
    }
}

/// A request as the body of a `request` event.
pub(crate) fn debug_body(request: &Request, model: &str, tools: &ToolList, options: &Map<String, Value>) -> Value {
    let mut body = Map::new();
    body.insert("model".to_owned(), model.into());
    body.insert("messages".to_owned(), request.messages().into());
    if !tools.is_empty() {
        body.insert("tools".to_owned(), tools.to_wire().into());
    }
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
    Value::Object(event_fields([
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
    event_fields([
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
