//! The tools of a section's loops: rendering what it offers, performing calls, and what is reported of them.

use runvil_core::tool_loop::{CallAnswer, Dispatch, ToolCall};
use runvil_core::tools::{ToolList, ToolSchema};
use runvil_lua::envelope;
use runvil_lua::failure::Failure;
use runvil_lua::packs::PackTool;
use runvil_lua::request::Answer as LuaAnswer;
use runvil_lua::tools::{Offered, Report};
use serde_json::{Map, Value};

use crate::effect::{Answer, Caller, Effect, PackCall, RenderedTool};
use crate::event::fields;
use crate::reports::{CallOutcome, CallReport};
use crate::run::{Next, Run, Waiter};

/// What a section's models may call: fixed by its first loop round.
pub(crate) struct Scope {
    /// The tools as every round sends them.
    pub(crate) list: ToolList,
    /// The pack's tool behind each name; a name without one is a local tool.
    tools: Vec<(String, Option<PackTool>)>,
}

impl Scope {
    /// How a call by each name is performed.
    pub(crate) fn dispatches(&self) -> Vec<(&str, Dispatch)> {
        let dispatch = |tool: &Option<PackTool>| if tool.is_some() { Dispatch::Bound } else { Dispatch::Alone };
        self.tools.iter().map(|(name, tool)| (name.as_str(), dispatch(tool))).collect()
    }

    fn find(&self, name: &str) -> Option<&PackTool> {
        self.tools.iter().find(|(known, _)| known == name).and_then(|(_, tool)| tool.as_ref())
    }
}

impl Run {
    /// Makes the section's tool list, once, and goes on to the round's request.
    pub(crate) fn validate_scope(&mut self, chain: usize) -> Next {
        let Some(entry) = self.chains[chain].entry.as_ref() else { return Next::Parked };
        let is_rendered = entry.scope.is_some();
        let offered = if is_rendered { Vec::new() } else { entry.vm.offered() };
        self.report_chunk(chain, "tool_scope_validation_started");
        if !offered.is_empty() {
            let tools = offered.iter().map(|offered| offered.tool.path.clone()).collect();
            self.emit(chain, Waiter::Render, Effect::RenderPacks { tools });
            return Next::Parked;
        }
        if !is_rendered {
            self.fix_scope(chain, Vec::new(), Vec::new());
        }
        self.report_chunk(chain, "tool_scope_validation_succeeded");
        self.send_round(chain)
    }

    /// The packs' schemas have come.
    pub(crate) fn rendered(&mut self, chain: usize, answer: Answer) -> Next {
        let Some(entry) = self.chains[chain].entry.as_ref() else { return Next::Parked };
        let offered = entry.vm.offered();
        let schemas = match answer {
            Answer::Rendered { tools } if tools.len() == offered.len() => pack_schemas(&offered, tools),
            Answer::Rendered { .. } => Err(Failure::Internal("not every offered tool was rendered".to_owned())),
            Answer::RenderFailure { path } => Err(Failure::ToolSchema { path }),
            _ => Err(Failure::Cancelled),
        };
        match schemas {
            Ok(schemas) => {
                self.fix_scope(chain, offered, schemas);
                self.report_chunk(chain, "tool_scope_validation_succeeded");
                self.send_round(chain)
            }
            Err(failure) => {
                self.report_chunk(chain, "tool_scope_validation_failed");
                self.loop_failed(chain, failure)
            }
        }
    }

    /// Fixes the section's list: the packs' tools in the order of the offers, then the local ones.
    fn fix_scope(&mut self, chain: usize, offered: Vec<Offered>, mut schemas: Vec<ToolSchema>) {
        let Some(entry) = self.chains[chain].entry.as_mut() else { return };
        entry.vm.close_offers();
        let mut tools: Vec<_> =
            offered.into_iter().map(|offered| (offered.tool.wire_name(), Some(offered.tool))).collect();
        for schema in entry.vm.local_tools() {
            tools.push((schema.name.clone(), None));
            schemas.push(schema);
        }
        entry.scope = Some(Scope { list: ToolList::new(&schemas), tools });
    }

    /// Performs calls of a batch: all of them packs' tools, or one local tool.
    pub(crate) fn issue_calls(&mut self, chain: usize, calls: &[usize]) -> Next {
        for &index in calls {
            let Some(entry) = self.chains[chain].entry.as_mut() else { return Next::Parked };
            let Some(looping) = entry.looping.as_mut() else { return Next::Parked };
            let Some(ToolCall { id, name, arguments }) = looping.machine.call(index).cloned() else { continue };
            let tool = entry.scope.as_ref().and_then(|scope| scope.find(&name)).cloned();
            let counted = entry.vm.count_call(tool.as_ref().map_or(name.as_str(), |tool| tool.path.as_str()));
            if let Err(failure) = counted {
                return self.loop_failed(chain, failure);
            }
            let Some(tool) = tool else {
                looping.handling = Some((index, id, name.clone()));
                return Next::Answer(LuaAnswer::Handle { name, arguments });
            };
            let call = PackCall {
                path: tool.path.clone(),
                arguments,
                caller: Caller::Model,
                call_id: id.clone(),
                section: entry.name.clone(),
            };
            self.emit(chain, Waiter::BatchCall { index, call_id: id, tool }, Effect::ToolCall(Box::new(call)));
        }
        Next::Parked
    }

    /// The answer to a call of a batch.
    pub(crate) fn call_answered(
        &mut self,
        chain: usize,
        index: usize,
        (call_id, tool): (String, PackTool),
        answer: Answer,
    ) -> Next {
        let nonce = &self.environment.nonce;
        let (outcome, answer) = match answer {
            Answer::ToolOutput { text } => {
                let content = if tool.trusted { text } else { envelope::untrusted(&text, nonce) };
                let outcome = CallOutcome::Succeeded { content: content.clone(), trusted: tool.trusted };
                (outcome, CallAnswer::Text(content))
            }
            Answer::ToolFailure { message } => {
                let content = envelope::untrusted(&message, nonce);
                (CallOutcome::Failed { content: content.clone() }, CallAnswer::Text(content))
            }
            _ => (CallOutcome::Dropped, CallAnswer::Dropped),
        };
        self.report_call(chain, index, CallReport { call_id, tool: tool.path, outcome });
        self.drive(chain, |looping, list, _| looping.machine.call_answered(list, index, answer))
    }

    /// The handler of a local tool has returned to its loop.
    pub(crate) fn handled(&mut self, chain: usize, text: String) -> Next {
        let looping = self.chains[chain].entry.as_mut().and_then(|entry| entry.looping.as_mut());
        let Some((index, call_id, tool)) = looping.and_then(|looping| looping.handling.take()) else {
            return Next::Answer(LuaAnswer::Failed(Failure::Internal("a handler returned to no loop".to_owned())));
        };
        let outcome = CallOutcome::Succeeded { content: text.clone(), trusted: true };
        self.report_call(chain, index, CallReport { call_id, tool, outcome });
        if self.decided() {
            return Next::Parked;
        }
        self.drive(chain, |looping, list, _| looping.machine.call_answered(list, index, CallAnswer::Text(text)))
    }

    fn report_call(&mut self, chain: usize, index: usize, report: CallReport) {
        let Some(entry) = self.chains[chain].entry.as_mut() else { return };
        let Some(looping) = entry.looping.as_mut() else { return };
        let turn = looping.reports.turn();
        for report in looping.reports.take(index, report) {
            self.recorder.tool_call(&entry.name, turn, &report);
        }
    }

    /// `tools.call` of a pack's tool.
    pub(crate) fn start_tool_call(&mut self, chain: usize, path: String, arguments: Map<String, Value>) -> Next {
        let Some(tool) = self.environment.packs.find(&path).cloned() else {
            return Next::Answer(LuaAnswer::Failed(Failure::Internal(format!("there is no tool {path}"))));
        };
        let Some(entry) = self.chains[chain].entry.as_ref() else { return Next::Parked };
        let section = entry.name.clone();
        let call = PackCall { path, arguments, caller: Caller::Script, call_id: String::new(), section };
        let waiter = Waiter::ScriptCall { tool, turn: self.turns };
        self.emit(chain, waiter, Effect::ToolCall(Box::new(call)));
        Next::Parked
    }

    /// The answer to a script's call.
    pub(crate) fn script_call_answered(&mut self, chain: usize, tool: &PackTool, turn: u64, answer: Answer) -> Next {
        let Some(entry) = self.chains[chain].entry.as_ref() else { return Next::Parked };
        let section = entry.name.clone();
        let output = match answer {
            Answer::ToolOutput { text } if tool.trusted => Ok(text),
            Answer::ToolOutput { text } => Ok(envelope::untrusted(&text, &self.environment.nonce)),
            Answer::ToolFailure { message } => Err(Failure::Tool(message)),
            _ => Err(Failure::Cancelled),
        };
        let value = output.and_then(|text| {
            if !tool.structured {
                return Ok((text.clone(), LuaAnswer::Text(text)));
            }
            // Text in the envelope is no JSON: what is structured has to be trusted, too.
            match serde_json::from_str(&text) {
                Ok(data) => Ok((text, LuaAnswer::Data(data))),
                Err(_) => Err(Failure::Tool(format!(
                    "structured tool {} returned invalid JSON",
                    runvil_lua::failure::quoted(&tool.path)
                ))),
            }
        });
        match value {
            Ok((text, answer)) => {
                let outcome = CallOutcome::Succeeded { content: text, trusted: tool.trusted };
                let report = CallReport { call_id: String::new(), tool: tool.path.clone(), outcome };
                self.recorder.tool_call(&section, turn, &report);
                Next::Answer(answer)
            }
            Err(failure) => {
                self.recorder.report("tool_call_failed", &section);
                Next::Answer(LuaAnswer::Failed(failure))
            }
        }
    }

    /// Passes on what a section reports of work that never left it.
    pub(crate) fn pass_on(&mut self, section: &str, report: Report) {
        match report {
            Report::Logged(message) => {
                self.recorder.report_with("lua", section, fields([("message", message.into())]));
            }
            Report::LocalResult { turn, name, content } => {
                let outcome = CallOutcome::Succeeded { content, trusted: true };
                let report = CallReport { call_id: String::new(), tool: name, outcome };
                self.recorder.tool_call(section, turn, &report);
            }
            Report::Compaction { stage, reason, before, now } => {
                self.recorder.compaction(section, stage, &reason, before, now);
            }
            Report::LocalFailed => self.recorder.report("tool_call_failed", section),
        }
    }
}

/// The schemas of packs' tools. A description of the offer takes the place of the pack's own.
fn pack_schemas(offered: &[Offered], rendered: Vec<RenderedTool>) -> Result<Vec<ToolSchema>, Failure> {
    offered
        .iter()
        .zip(rendered)
        .map(|(offered, rendered)| match rendered.parameters {
            Value::Object(parameters) => Ok(ToolSchema {
                name: offered.tool.wire_name(),
                description: offered.description.clone().unwrap_or(rendered.description),
                parameters,
            }),
            _ => Err(Failure::ToolSchema { path: offered.tool.path.clone() }),
        })
        .collect()
}
