//! What is reported of model rounds and tool calls.

use std::sync::atomic::Ordering;

use runvil_core::judge::{Judgement, judge};
use runvil_core::list::ListSize;
use runvil_core::reply::{CallArguments, Reply, Usage};
use runvil_core::request::Request;
use runvil_core::tool_loop::ToolCall;
use runvil_core::tools::ToolList;
use runvil_lua::tools::CompactionStage;
use serde_json::{Map, Value, json};

use crate::effect::Origin;
use crate::event::{Recorder, fields};
use crate::run::Run;

/// The round that a report is about.
#[derive(Debug, Clone, Copy)]
pub struct RoundReport<'a> {
    /// The section's heading text.
    pub section: &'a str,
    /// What the round is for.
    pub origin: Origin,
    /// The request's number, from 0.
    pub round: u64,
    /// The replies received so far, this one included.
    pub turn: u64,
}

impl RoundReport<'_> {
    fn with(self, more: Map<String, Value>) -> Map<String, Value> {
        let turn = self.turn.min(u64::from(u32::MAX));
        let mut all =
            fields([("turn", turn.into()), ("round", self.round.into()), ("origin", self.origin.as_str().into())]);
        all.extend(more);
        all
    }
}

impl Recorder {
    /// Reports a round that failed. `round` is the request's number; a request that was never sent has none.
    pub fn failed_turn(&mut self, section: &str, origin: Origin, round: Option<u64>) {
        let about = fields([("round", round.into()), ("origin", origin.as_str().into())]);
        self.report_with("model_turn_failed", section, about);
    }

    /// Reports a reply, in the order the specification gives a served round. `request` is the request's body, when
    /// the events are to show bodies.
    pub fn reply(&mut self, about: RoundReport<'_>, reply: &Reply, calls: &[ToolCall], request: Option<Value>) {
        let section = about.section;
        let model = reply.model.as_deref().unwrap_or_default();
        let finish_reason = Value::from(reply.finish_reason.clone());
        let empty = match judge(reply, 0) {
            Judgement::Empty(empty) => Value::from(empty.message),
            _ => Value::Null,
        };
        // An empty reply has nothing to capture.
        if let Some(body) = request.filter(|_| empty.is_null()) {
            self.report_with("request", section, about.with(fields([("body", body)])));
            let response = about.with(fields([
                ("body", response_body(reply)),
                ("finish_reason", finish_reason.clone()),
                ("reasoning_content", reply.reasoning.clone().into()),
            ]));
            self.report_with("response", section, response);
        }
        let completed = about.with(fields([("finish_reason", finish_reason.clone()), ("message", empty)]));
        self.report_with("model_turn_completed", section, completed);
        for message in &reply.degraded {
            let degraded = about.with(fields([("message", message.as_str().into())]));
            self.report_with("model_metadata_degraded", section, degraded);
        }
        if let Some(reasoning) = reply.reasoning.as_deref().filter(|reasoning| !reasoning.is_empty()) {
            let thinking = about.with(fields([("model", model.into()), ("text", reasoning.into())]));
            self.report_with("thinking", section, thinking);
        }
        if !calls.is_empty() {
            let calls: Vec<Value> = calls
                .iter()
                .map(|call| json!({ "id": call.id, "name": call.name, "arguments": call.arguments }))
                .collect();
            let asked = about.with(fields([("model", model.into()), ("calls", calls.into())]));
            self.report_with("assistant_tool_calls", section, asked);
            return;
        }
        let Some(text) = reply.product_text() else { return };
        if reply.finish_reason.as_deref() == Some("length") {
            self.report_with("model_turn_truncated", section, about.with(Map::new()));
        }
        let replied = about.with(fields([
            ("text", text.into()),
            ("finish_reason", finish_reason),
            ("model", model.into()),
            ("metrics", metrics(reply)),
        ]));
        self.report_with("assistant_reply", section, replied);
    }

    /// Reports a compaction: how large the list was before this, unless it was left alone, and how large it is now.
    pub fn compaction(
        &mut self,
        section: &str,
        stage: CompactionStage,
        reason: &str,
        before: Option<ListSize>,
        now: ListSize,
    ) {
        let kind = match stage {
            CompactionStage::Started => "compaction_started",
            CompactionStage::Accepted => "compaction_accepted",
            CompactionStage::Restored => "compaction_restored",
        };
        let about = fields([
            ("reason", reason.into()),
            ("records_before", before.map(|size| size.records).into()),
            ("estimate_before", before.map(|size| size.estimate).into()),
            ("records", now.records.into()),
            ("estimate", now.estimate.into()),
        ]);
        self.report_with(kind, section, about);
    }

    /// Reports the outcome of a tool call and, where there is one, its result as the caller sees it.
    pub fn tool_call(&mut self, section: &str, turn: u64, call: &CallReport) {
        let (kind, result) = match &call.outcome {
            CallOutcome::Succeeded { content, trusted } => ("tool_call_succeeded", Some((content, *trusted))),
            CallOutcome::Failed { content } => ("tool_call_failed", Some((content, false))),
            CallOutcome::Dropped => ("tool_call_failed", None),
        };
        self.report(kind, section);
        if let Some((content, trusted)) = result {
            let about = fields([
                ("turn", turn.min(u64::from(u32::MAX)).into()),
                ("tool_call_id", call.call_id.as_str().into()),
                ("alias", call.tool.as_str().into()),
                ("content", content.as_str().into()),
                ("trusted", trusted.into()),
            ]);
            self.report_with("tool_result", section, about);
        }
    }
}

/// What is reported of one tool call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallReport {
    /// The model's id of the call; empty for a script.
    pub call_id: String,
    /// A pack tool's path, or another tool's name.
    pub tool: String,
    /// How it went.
    pub outcome: CallOutcome,
}

/// How a tool call went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallOutcome {
    /// It gave this result.
    Succeeded {
        /// The result as the caller sees it.
        content: String,
        /// Whether it is passed on bare.
        trusted: bool,
    },
    /// It failed with these words for the model.
    Failed {
        /// The words, as the model sees them.
        content: String,
    },
    /// It was given up.
    Dropped,
}

/// The reports of a batch, given out in the order of its calls whatever order they finish in.
#[derive(Debug, Default)]
pub struct BatchReports {
    turn: u64,
    waiting: Vec<Option<CallReport>>,
    next: usize,
}

impl BatchReports {
    /// Room for the reports of a batch of so many calls, which the reply of this turn asked for.
    pub fn new(turn: u64, calls: usize) -> Self {
        Self { turn, waiting: (0..calls).map(|_| None).collect(), next: 0 }
    }

    /// The turn of the reply that asked for the batch.
    pub fn turn(&self) -> u64 {
        self.turn
    }

    /// Takes the report of one call, counted from 0; gives those whose turn has come.
    pub fn take(&mut self, index: usize, report: CallReport) -> Vec<CallReport> {
        if let Some(place) = self.waiting.get_mut(index) {
            *place = Some(report);
        }
        let mut ready = Vec::new();
        while let Some(report) = self.waiting.get_mut(self.next).and_then(Option::take) {
            ready.push(report);
            self.next += 1;
        }
        ready
    }
}

impl Run {
    pub(crate) fn report_failed_turn(&mut self, section: &str, origin: Origin, round: Option<u64>) {
        if let Some(round) = round {
            self.debug_bodies.remove(&round);
        }
        self.recorder.failed_turn(section, origin, round);
    }

    /// Adds what a reply reports to the run's sums: a malformed one has used its tokens, too.
    pub(crate) fn count_usage(&mut self, reply: &Reply) {
        if let Some(usage) = &reply.usage {
            add_usage(&mut self.usage, usage);
        }
    }

    /// Counts a reply as a turn and reports it.
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
        let body = self.debug_bodies.remove(&round);
        let about = RoundReport { section, origin, round, turn: self.turns };
        self.recorder.reply(about, reply, calls, body);
    }
}

/// A request as the body of a `request` event.
pub fn debug_body(request: &Request, model: &str, tools: &ToolList, options: &Map<String, Value>) -> Value {
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
pub fn usage_fields(usage: &Usage) -> Map<String, Value> {
    fields([
        ("prompt_tokens", usage.prompt_tokens.into()),
        ("completion_tokens", usage.completion_tokens.into()),
        ("total_tokens", usage.total_tokens.into()),
        ("reasoning_tokens", usage.reasoning_tokens.into()),
        ("cached_tokens", usage.cached_tokens.into()),
    ])
}

/// Adds reported counts to a sum; a count that nobody reported stays absent.
pub fn add_usage(sum: &mut Usage, usage: &Usage) {
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
