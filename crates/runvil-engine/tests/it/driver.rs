//! Drives a run to its end with scripted answers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use runvil_core::failure::{FailureKind, ModelFailure, classify};
use runvil_core::reply::{CallArguments, Reply, ReplyCall, ReplySource, Usage};
use runvil_engine::effect::{Answer, Effect, Round};
use runvil_engine::outcome::Outcome;
use runvil_engine::params::Params;
use runvil_engine::prompt::Prompt;
use runvil_engine::run::{Run, Step};
use serde_json::{Value, json};

/// What the outside world answers.
#[derive(Debug, Clone, Default)]
pub(crate) struct World {
    /// Model answers, in the `--replies` format.
    pub replies: VecDeque<Value>,
    /// Operator texts.
    pub inputs: VecDeque<String>,
    /// Libraries by name.
    pub libraries: BTreeMap<String, String>,
}

/// Everything a run showed.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub outcome: Outcome,
    pub events: Vec<Value>,
    pub requests: Vec<Value>,
}

/// Reads replies in the `--replies` format: model answers and operator lines.
pub(crate) fn world(replies: &str) -> World {
    let mut world = World::default();
    for line in replies.lines().filter(|line| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        match value.get("user") {
            Some(text) => world.inputs.push_back(text.as_str().unwrap().to_owned()),
            None => world.replies.push_back(value),
        }
    }
    world
}

/// Drives a run to its end. With a budget, every step is cut short as often as that takes.
pub(crate) fn drive(prompt: &Arc<Prompt>, params: Params, mut world: World, budget: Option<u64>) -> Seen {
    let mut run = Run::new(Arc::clone(prompt), params);
    let mut events = Vec::new();
    let mut requests = Vec::new();
    loop {
        let step = match budget {
            None => run.step(),
            Some(work) => loop {
                if let Some(step) = run.step_within(work) {
                    break step;
                }
            },
        };
        match step {
            Step::Done { outcome, events: last } => {
                events.extend(last.iter().map(runvil_engine::event::Event::to_value));
                return Seen { outcome, events, requests };
            }
            Step::Pending { effects, events: new } => {
                events.extend(new.iter().map(runvil_engine::event::Event::to_value));
                assert!(!effects.is_empty(), "the run waits for nothing");
                for (id, effect) in effects {
                    let answer = match effect {
                        Effect::Round(round) => {
                            requests.push(request_line(&round));
                            model_answer(world.replies.pop_front())
                        }
                        Effect::LoadLibrary { name } => match world.libraries.get(&name) {
                            Some(source) => Answer::Library { source: source.clone().into_bytes() },
                            None => Answer::LibraryMissing { message: format!("there is no library {name}") },
                        },
                        Effect::UserInput => match world.inputs.pop_front() {
                            Some(text) => Answer::UserInput { text },
                            None => Answer::InputUnavailable,
                        },
                    };
                    run.resume(id, answer);
                }
            }
        }
    }
}

fn request_line(round: &Round) -> Value {
    json!({
        "round": round.round,
        "origin": round.origin.as_str(),
        "section": round.section,
        "model": round.model,
        "role": round.role,
        "handle": round.handle,
        "messages": round.request.messages(),
        "tools": round.tools,
        "options": round.options,
        "estimate": round.estimate,
        "count": round.count,
        "reserve": round.reserve,
        "window": round.window,
    })
}

fn text(value: &Value, key: &str) -> Option<String> {
    value.get(key).and_then(Value::as_str).map(str::to_owned)
}

fn model_answer(line: Option<Value>) -> Answer {
    let Some(line) = line else {
        return Answer::ModelFailure(ModelFailure {
            note: Some("the scripted replies have run out".to_owned()),
            ..ModelFailure::new(FailureKind::Unavailable)
        });
    };
    if let Some(error) = line.get("error") {
        let status = error.get("status").and_then(Value::as_u64).and_then(|status| u16::try_from(status).ok());
        return Answer::ModelFailure(if let Some(detail) = text(error, "transport") {
            ModelFailure { detail: Some(detail), ..ModelFailure::new(FailureKind::Transport) }
        } else {
            let mut failure = classify(status, &text(error, "body").unwrap_or_default());
            failure.status = status;
            failure
        });
    }
    let calls = line.get("tool_calls").and_then(Value::as_array).cloned().unwrap_or_default();
    let usage = line.get("usage").map(|usage| {
        let count = |key: &str| usage.get(key).and_then(Value::as_u64);
        Usage {
            prompt_tokens: count("prompt_tokens"),
            completion_tokens: count("completion_tokens"),
            total_tokens: count("total_tokens"),
            reasoning_tokens: count("reasoning_tokens"),
            cached_tokens: count("cached_tokens"),
        }
    });
    Answer::Reply(Box::new(Reply {
        text: text(&line, "text"),
        tool_calls: calls
            .iter()
            .map(|call| ReplyCall {
                id: text(call, "id").unwrap_or_default(),
                name: text(call, "name").unwrap_or_default(),
                arguments: match call.get("arguments") {
                    None => CallArguments::Absent,
                    Some(Value::String(raw)) => CallArguments::Text(raw.clone()),
                    Some(value) => CallArguments::Value(value.clone()),
                },
            })
            .collect(),
        finish_reason: text(&line, "finish_reason"),
        usage,
        reasoning: text(&line, "reasoning"),
        model: text(&line, "model"),
        metrics: None,
        degraded: Vec::new(),
        source: ReplySource::Backend,
    }))
}
