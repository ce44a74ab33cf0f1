//! Drives a run to its end with scripted answers.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use runvil_core::failure::{FailureKind, ModelFailure, classify};
use runvil_core::reply::{CallArguments, Reply, ReplyCall, ReplySource, Usage};
use runvil_engine::effect::{Answer, Effect, RenderedTool, Round};
use runvil_engine::outcome::Outcome;
use runvil_engine::params::{Pack, PackTool, Params};
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
    /// Declared packs, in the `--replies` format.
    pub packs: Vec<Value>,
    /// Tool answers by path, in the `--replies` format.
    pub tools: BTreeMap<String, VecDeque<Value>>,
}

/// Everything a run showed.
#[derive(Debug, PartialEq)]
pub(crate) struct Seen {
    pub outcome: Outcome,
    pub events: Vec<Value>,
    pub requests: Vec<Value>,
}

/// Reads replies in the `--replies` format.
pub(crate) fn world(replies: &str) -> World {
    let mut world = World::default();
    for line in replies.lines().filter(|line| !line.trim().is_empty()) {
        let value: Value = serde_json::from_str(line).unwrap_or_else(|error| panic!("{error} in {line}"));
        if let Some(text) = text(&value, "user") {
            world.inputs.push_back(text);
        } else if let Some(path) = text(&value, "tool") {
            world.tools.entry(path).or_default().push_back(value);
        } else if value.get("pack").is_some() {
            world.packs.push(value);
        } else {
            world.replies.push_back(value);
        }
    }
    world
}

impl World {
    /// The packs as a run's parameters take them.
    pub(crate) fn pack_params(&self) -> Vec<Pack> {
        let flag = |tool: &Value, key: &str| tool.get(key).and_then(Value::as_bool).unwrap_or(false);
        self.packs
            .iter()
            .map(|pack| Pack {
                name: text(pack, "pack").unwrap(),
                tools: entries(pack)
                    .map(|tool| PackTool {
                        name: text(tool, "name").unwrap(),
                        trusted: flag(tool, "trusted"),
                        structured: flag(tool, "structured"),
                    })
                    .collect(),
                conflicts: Vec::new(),
            })
            .collect()
    }

    fn render(&self, paths: &[String]) -> Answer {
        let schema = |path: &String| {
            let (pack, name) = path.split_once('/').unwrap();
            let pack = self.packs.iter().find(|entry| text(entry, "pack").as_deref() == Some(pack)).unwrap();
            let tool = entries(pack).find(|tool| text(tool, "name").as_deref() == Some(name)).unwrap();
            let nothing = json!({ "type": "object", "properties": {} });
            RenderedTool {
                description: text(tool, "description").unwrap_or_default(),
                parameters: tool.get("parameters").cloned().unwrap_or(nothing),
            }
        };
        Answer::Rendered { tools: paths.iter().map(schema).collect() }
    }

    /// A tool's answer and its delay in milliseconds; the last answer repeats.
    fn call(&mut self, path: &str) -> (Answer, u64) {
        let answers = self.tools.entry(path.to_owned()).or_default();
        let line = if answers.len() > 1 { answers.pop_front() } else { answers.front().cloned() };
        let Some(line) = line else {
            return (Answer::ToolFailure { message: format!("there is no scripted answer for {path}") }, 0);
        };
        let delay = line.get("delay_ms").and_then(Value::as_u64).unwrap_or(0);
        let answer = match text(&line, "error") {
            Some(message) => Answer::ToolFailure { message },
            None => Answer::ToolOutput { text: text(&line, "result").unwrap_or_default() },
        };
        (answer, delay)
    }

    /// The answer to an effect and its delay in milliseconds.
    fn answer(&mut self, effect: &Effect) -> (Answer, u64) {
        let answer = match effect {
            Effect::Round(_) => model_answer(self.replies.pop_front()),
            Effect::CountTokens(count) => Answer::Counted { tokens: count.request.estimate() },
            Effect::RenderPacks { tools } => self.render(tools),
            Effect::ToolCall(call) => return self.call(&call.path),
            Effect::LoadLibrary { name } => match self.libraries.get(name) {
                Some(source) => Answer::Library { source: source.clone().into_bytes() },
                None => Answer::LibraryMissing { message: format!("there is no library {name}") },
            },
            Effect::UserInput => match self.inputs.pop_front() {
                Some(text) => Answer::UserInput { text },
                None => Answer::InputUnavailable,
            },
        };
        (answer, 0)
    }
}

fn entries(pack: &Value) -> impl Iterator<Item = &Value> {
    pack.get("tools").and_then(Value::as_array).into_iter().flatten()
}

/// Drives a run to its end; answers come in the order of their delays, then of their effects. With a budget, every step
/// is cut short as often as that takes.
pub(crate) fn drive(prompt: &Arc<Prompt>, params: Params, mut world: World, budget: Option<u64>) -> Seen {
    let mut run = Run::new(Arc::clone(prompt), params);
    let mut events = Vec::new();
    let mut requests = Vec::new();
    let mut due = BTreeMap::new();
    let mut now = 0;
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
                for (id, effect) in effects {
                    if let Effect::Round(round) = &effect {
                        requests.push(request_line(round));
                    }
                    let (answer, delay) = world.answer(&effect);
                    due.insert((now + delay, id), answer);
                }
                let ((at, id), answer) = due.pop_first().expect("the run waits for something");
                now = at;
                run.resume(id, answer);
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
        "tools": round.tools.names(),
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
