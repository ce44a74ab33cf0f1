//! `ConversationLoop`: the tool loop over a conversation, as a driver in Python sees it.

use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use runvil_core::anchor::Anchor;
use runvil_core::estimator::{DetailCounter, Estimator};
use runvil_core::failure::ModelFailure;
use runvil_core::list::{ListSize, MessageList};
use runvil_core::precheck::{ContextOverflow, OverflowReason, Precheck};
use runvil_core::quote::quote;
use runvil_core::reply::Reply;
use runvil_core::request::Request;
use runvil_core::tool_loop::{
    CallAnswer, Dispatch, LoopError, RoundModel, Step, ToolCall, ToolLoop, read_calls, read_calls_leniently,
};
use runvil_core::tools::{ToolList, ToolSchema};
use runvil_engine::effect::{Answer, Count, Origin, Round};
use runvil_engine::event::Recorder;
use runvil_engine::reports::{BatchReports, CallOutcome, CallReport, RoundReport};
use runvil_lua::envelope;
use runvil_lua::tools::CompactionStage;
use serde_json::{Map, Value};

use super::Conversation;
use super::failure::{loop_error, loop_running};
use super::shared::State;
use crate::answers;
use crate::convert::{self, from_python, to_dict};
use crate::outcome::Event;
use crate::params::estimator;
use crate::round::{CountRequest, RoundRequest};

const WHAT: &str = "the parameters of a loop";

/// One loop over a conversation. Everything it decides comes as a step; what a step asks for, the driver does.
#[pyclass(module = "runvil._native")]
pub(crate) struct ConversationLoop {
    conversation: Py<Conversation>,
    machine: ToolLoop,
    tools: ToolList,
    recorder: Recorder,
    reports: BatchReports,
    nonce: String,
    is_lenient: bool,
    requests: u64,
    turns: u64,
    /// Calls of the batch that the loop answers itself: the place, and the words for the model.
    refused: Vec<(usize, String)>,
    /// The compaction under way: its reason, and the list from before it.
    compaction: Option<(OverflowReason, ListSize)>,
    /// Of the latest overflow the tokens of the request, and the most that fit, as the provider said.
    overflow: (Option<u64>, Option<u64>),
    /// What the detailed estimator has counted.
    details: DetailCounter,
    /// The request that waits for its count.
    counting: Option<(Target, Request)>,
}

/// The model of a round, and the options that are set.
struct Target {
    name: String,
    id: String,
    context: u64,
    estimator: Estimator,
    options: Map<String, Value>,
}

#[pymethods]
impl ConversationLoop {
    /// Starts a loop; `tools` are `{name, description, parameters}`, `seed` marks untrusted text.
    #[new]
    #[pyo3(signature = (conversation, tools, *, max_rounds, seed, is_lenient = false, keeps_finished = false))]
    fn new(
        py: Python<'_>,
        conversation: Py<Conversation>,
        tools: &Bound<'_, PyList>,
        max_rounds: u32,
        seed: u64,
        is_lenient: bool,
        keeps_finished: bool,
    ) -> PyResult<Self> {
        let tools = tools.iter().map(|tool| schema(tool.cast::<PyDict>()?)).collect::<PyResult<Vec<_>>>()?;
        let started = conversation.get().shared.with(py, |state| {
            let is_free = !state.looping && state.compaction.is_none();
            state.looping |= is_free;
            is_free
        });
        if !started {
            return Err(loop_running());
        }
        Ok(Self {
            conversation,
            machine: ToolLoop::new(max_rounds).keeping_finished(keeps_finished),
            tools: ToolList::new(&tools),
            recorder: Recorder::new("conversation"),
            reports: BatchReports::default(),
            nonce: envelope::nonce(seed),
            is_lenient,
            requests: 0,
            turns: 0,
            refused: Vec::new(),
            compaction: None,
            overflow: (None, None),
            details: DetailCounter::new(),
            counting: None,
        })
    }

    /// Ends the loop, whatever became of it.
    fn close(&self, py: Python<'_>) {
        self.conversation.get().shared.with(py, |state| state.looping = false);
    }

    /// The replies received so far.
    #[getter]
    fn turns(&self) -> u64 {
        self.turns
    }

    /// The events since the last look, in order.
    fn events(&mut self) -> Vec<Event> {
        self.recorder.take().into_iter().map(Event::new).collect()
    }

    /// Composes and prechecks the next request for a model, given as its dict, with the options that are set. With an
    /// estimator of the application's the step is `count`, and [`Self::counted`] goes on.
    fn send(&mut self, py: Python<'_>, model: &Bound<'_, PyDict>, options: &Bound<'_, PyDict>) -> PyResult<LoopStep> {
        let Value::Object(options) = from_python(options.as_any(), "an option of a loop")? else {
            return Err(PyTypeError::new_err("options must be a dict"));
        };
        let target = Target {
            name: convert::required(model, "model", WHAT)?,
            id: convert::required(model, "id", WHAT)?,
            context: convert::required(model, "context", WHAT)?,
            estimator: estimator(model)?,
            options,
        };
        let machine = &mut self.machine;
        let composed = on_list(py, &self.conversation, |list, _| {
            ToolLoop::opens(list)?;
            machine.compose(list)
        });
        self.conversation.get().shared.with(py, State::note_composed);
        let request = match composed {
            Ok(request) => request,
            Err(error) => {
                if !matches!(&error, LoopError::Rule(error) if error.position.is_none()) {
                    self.recorder.failed_turn("", Origin::Chat, None);
                }
                let step = self.machine.fail(error);
                return Ok(self.step(py, step));
            }
        };
        let tokens = match &target.estimator {
            Estimator::Specified => request.estimate(),
            Estimator::Detailed { image_tokens } => {
                let (details, tools) = (&mut self.details, &self.tools);
                py.detach(|| details.count(&request, tools, *image_tokens))
            }
            Estimator::External { .. } => {
                let count = Count {
                    model: target.name.clone(),
                    role: None,
                    conversation: Some(String::new()),
                    request: request.clone(),
                    tools: self.tools.clone(),
                };
                self.counting = Some((target, request));
                return Ok(LoopStep { count: Some(Py::new(py, CountRequest::new(count))?), ..LoopStep::of("count") });
            }
        };
        self.admit(py, target, request, tokens)
    }

    /// Takes the count of the request that waits for one, in tokens.
    fn counted(&mut self, py: Python<'_>, tokens: u64) -> PyResult<LoopStep> {
        match self.counting.take() {
            Some((target, request)) => self.admit(py, target, request, tokens),
            None => Ok(LoopStep::of("wait")),
        }
    }

    /// Takes the reply to the request that is out.
    fn replied(&mut self, py: Python<'_>, reply: &Bound<'_, PyAny>) -> PyResult<LoopStep> {
        let Answer::Reply(reply) = answers::read("reply", reply)? else { return Ok(LoopStep::of("wait")) };
        let calls = match self.read(&reply) {
            Ok(calls) => calls,
            Err(failure) => return Ok(self.request_failed(py, failure)),
        };
        self.turns += 1;
        let round = self.requests.saturating_sub(1);
        let about = RoundReport { section: "", origin: Origin::Chat, round, turn: self.turns };
        self.recorder.reply(about, &reply, &calls, None);
        self.reports = BatchReports::new(self.turns, calls.len());
        let known = self.tools.names().iter().map(String::as_str);
        let refused = self.refused.iter().filter_map(|(index, _)| Some(calls.get(*index)?.name.clone()));
        let refused: Vec<String> = refused.collect();
        let scope: Vec<(&str, Dispatch)> =
            known.chain(refused.iter().map(String::as_str)).map(|name| (name, Dispatch::Bound)).collect();
        let machine = &mut self.machine;
        let step = on_list(py, &self.conversation, |list, anchor| machine.replied(list, anchor, &reply, calls, &scope));
        Ok(self.step(py, step))
    }

    /// Takes the failure of the request that is out.
    fn failed(&mut self, py: Python<'_>, failure: &Bound<'_, PyAny>) -> PyResult<LoopStep> {
        match answers::read("model_failure", failure)? {
            Answer::ModelFailure(failure) => Ok(self.request_failed(py, failure)),
            _ => Ok(LoopStep::of("wait")),
        }
    }

    /// Takes the answer to a call of the batch, counted from 0: `output` or `failure` with a text, or `dropped`.
    #[pyo3(signature = (index, outcome, text = "", is_trusted = false))]
    fn call_answered(&mut self, py: Python<'_>, index: usize, outcome: &str, text: &str, is_trusted: bool) -> LoopStep {
        let (outcome, answer) = match outcome {
            "output" => {
                let content = if is_trusted { text.to_owned() } else { envelope::untrusted(text, &self.nonce) };
                (CallOutcome::Succeeded { content: content.clone(), trusted: is_trusted }, CallAnswer::Text(content))
            }
            "failure" => {
                let content = envelope::untrusted(text, &self.nonce);
                (CallOutcome::Failed { content: content.clone() }, CallAnswer::Text(content))
            }
            _ => (CallOutcome::Dropped, CallAnswer::Dropped),
        };
        let step = self.answer(py, index, outcome, answer);
        self.step(py, step)
    }

    /// The compactor has returned: judges the records it left.
    fn compacted(&mut self, py: Python<'_>, number: u64) -> LoopStep {
        let left = self.size(py);
        let machine = &mut self.machine;
        let step = self.conversation.get().shared.with_detached(py, |state| {
            let Some(compaction) = state.compaction.take_if(|compaction| compaction.number == number) else {
                return Step::Wait;
            };
            state.changed_from(0);
            machine.compacted(&mut state.list, compaction.before)
        });
        let accepted = matches!(step, Step::Round);
        self.report_compaction(left, accepted);
        self.step(py, step)
    }

    /// The compactor has raised, having left a list of this many records and this estimate; the records are back.
    fn compaction_failed(&mut self, records: usize, estimate: u64) {
        self.report_compaction(ListSize { records, estimate }, false);
    }

    /// Of the latest overflow the tokens of the request, and the most that fit, as the provider said.
    #[getter]
    fn overflow(&self) -> (Option<u64>, Option<u64>) {
        self.overflow
    }

    /// The records of the list, and the plain estimate of the request it makes, in tokens.
    fn measure(&self, py: Python<'_>) -> (usize, u64) {
        let ListSize { records, estimate } = self.size(py);
        (records, estimate)
    }
}

impl ConversationLoop {
    fn size(&self, py: Python<'_>) -> ListSize {
        on_list(py, &self.conversation, |list, _| list.size())
    }

    /// Reports how a compaction that left a list of this size ended.
    fn report_compaction(&mut self, left: ListSize, accepted: bool) {
        let Some((reason, before)) = self.compaction.take() else { return };
        let (stage, earlier, now) = if accepted {
            (CompactionStage::Accepted, before, left)
        } else {
            (CompactionStage::Restored, left, before)
        };
        self.recorder.compaction("", stage, reason.as_str(), Some(earlier), now);
    }

    /// Reports that a retry which overflowed again has put back the records from before its compaction.
    fn report_restored(&mut self, py: Python<'_>, retried: Option<ListSize>, step: &Step) {
        if let (Some(left), Step::Failed(LoopError::ContextExhausted(overflow))) = (retried, step) {
            let now = self.size(py);
            self.recorder.compaction("", CompactionStage::Restored, overflow.reason.as_str(), Some(left), now);
        }
    }

    fn admit(&mut self, py: Python<'_>, target: Target, request: Request, tokens: u64) -> PyResult<LoopStep> {
        let retried = self.retried(py);
        let machine = &mut self.machine;
        let step = on_list(py, &self.conversation, |list, anchor| {
            let model = RoundModel {
                name: &target.name,
                context: target.context,
                max_tokens: target.options.get("max_tokens").and_then(Value::as_u64),
                must_shrink: target.estimator.is_specified(),
            };
            machine.admit(list, request, model, anchor, tokens)
        });
        let Step::Send { request, precheck } = step else {
            self.recorder.failed_turn("", Origin::Chat, None);
            self.report_restored(py, retried, &step);
            return Ok(self.step(py, step));
        };
        let round = self.round(target, request, precheck);
        Ok(LoopStep { request: Some(Py::new(py, RoundRequest::new(round))?), ..LoopStep::of("send") })
    }

    fn retried(&self, py: Python<'_>) -> Option<ListSize> {
        self.machine.is_retry().then(|| self.size(py))
    }

    /// The calls of a reply. Of a lenient loop the unknown and the undecodable ones are put aside.
    fn read(&mut self, reply: &Reply) -> Result<Vec<ToolCall>, ModelFailure> {
        self.refused.clear();
        if !self.is_lenient {
            return read_calls(reply);
        }
        let mut calls = Vec::new();
        for (index, (call, problem)) in read_calls_leniently(reply)?.into_iter().enumerate() {
            if let Some(problem) = problem {
                self.refused.push((index, format!("this call {problem}")));
            } else if !self.tools.names().contains(&call.name) {
                let names: Vec<String> = self.tools.names().iter().map(|name| quote(name)).collect();
                let names = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
                self.refused.push((index, format!("there is no tool {}; tools: {names}", quote(&call.name))));
            }
            calls.push(call);
        }
        Ok(calls)
    }

    fn round(&mut self, target: Target, request: Request, precheck: Precheck) -> Round {
        let round = self.requests;
        self.requests += 1;
        Round {
            round,
            origin: Origin::Chat,
            section: String::new(),
            conversation: None,
            model: target.name,
            model_id: target.id,
            role: None,
            handle: None,
            estimate: request.estimate(),
            count: precheck.count,
            reserve: precheck.reserve,
            window: target.context,
            estimator: target.estimator.name().map(str::to_owned),
            request,
            tools: self.tools.clone(),
            options: target.options,
        }
    }

    fn request_failed(&mut self, py: Python<'_>, failure: ModelFailure) -> LoopStep {
        self.recorder.failed_turn("", Origin::Chat, Some(self.requests.saturating_sub(1)));
        let retried = self.retried(py);
        let machine = &mut self.machine;
        let step = on_list(py, &self.conversation, |list, _| machine.request_failed(list, failure));
        self.report_restored(py, retried, &step);
        self.step(py, step)
    }

    fn answer(&mut self, py: Python<'_>, index: usize, outcome: CallOutcome, answer: CallAnswer) -> Step {
        if let Some(ToolCall { id, name, .. }) = self.machine.call(index) {
            let report = CallReport { call_id: id.clone(), tool: name.clone(), outcome };
            let turn = self.reports.turn();
            for report in self.reports.take(index, report) {
                self.recorder.tool_call("", turn, &report);
            }
        }
        let machine = &mut self.machine;
        on_list(py, &self.conversation, |list, _| machine.call_answered(list, index, answer))
    }

    /// A step as Python sees it.
    fn step(&mut self, py: Python<'_>, mut step: Step) -> LoopStep {
        while let Step::Calls(indexes) = step {
            let (refused, calls): (Vec<usize>, Vec<usize>) =
                indexes.into_iter().partition(|index| self.refused.iter().any(|(place, _)| place == index));
            let calls: Vec<(usize, ToolCall)> =
                calls.into_iter().filter_map(|index| Some((index, self.machine.call(index)?.clone()))).collect();
            step = Step::Wait;
            for index in refused {
                let text = self.refused.iter().find(|(place, _)| *place == index).map(|(_, text)| text.as_str());
                let content = envelope::untrusted(text.unwrap_or_default(), &self.nonce);
                let outcome = CallOutcome::Failed { content: content.clone() };
                step = self.answer(py, index, outcome, CallAnswer::Text(content));
            }
            if !calls.is_empty() {
                return LoopStep { calls, ..LoopStep::of("calls") };
            }
        }
        match step {
            Step::Round => LoopStep::of("round"),
            Step::Compact(ContextOverflow { reason, used, limit }) => {
                self.overflow = (used, limit);
                let size = self.size(py);
                self.recorder.compaction("", CompactionStage::Started, reason.as_str(), None, size);
                self.compaction = Some((reason, size));
                LoopStep { reason: Some(reason.as_str()), ..LoopStep::of("compact") }
            }
            Step::Finished => LoopStep::of("finished"),
            Step::Failed(error) => LoopStep { error: Some(error), ..LoopStep::of("failed") },
            Step::Wait | Step::Send { .. } | Step::Calls(_) => LoopStep::of("wait"),
        }
    }
}

/// Works on the list of a conversation and on what was measured of it.
fn on_list<R: Send>(
    py: Python<'_>,
    conversation: &Py<Conversation>,
    work: impl FnOnce(&mut MessageList, &mut Anchor) -> R + Send,
) -> R {
    conversation
        .get()
        .shared
        .with_detached(py, |state: &mut State| work(&mut state.list, state.anchor.get_or_insert_default()))
}

fn schema(tool: &Bound<'_, PyDict>) -> PyResult<ToolSchema> {
    let parameters: Bound<'_, PyAny> = convert::required(tool, "parameters", WHAT)?;
    let Value::Object(parameters) = from_python(&parameters, "the parameters of a tool")? else {
        return Err(PyTypeError::new_err("the parameters of a tool must be a dict"));
    };
    Ok(ToolSchema {
        name: convert::required(tool, "name", WHAT)?,
        description: convert::optional(tool, "description", WHAT)?.unwrap_or_default(),
        parameters,
    })
}

/// A call of a batch: its place in it, its id, its name and its arguments.
type Call<'py> = (usize, String, String, Bound<'py, PyDict>);

/// What a loop's driver does next: `round`, `count`, `send`, `calls`, `wait`, `compact`, `finished` or `failed`.
#[pyclass(frozen, module = "runvil._native")]
pub(crate) struct LoopStep {
    kind: &'static str,
    request: Option<Py<RoundRequest>>,
    count: Option<Py<CountRequest>>,
    calls: Vec<(usize, ToolCall)>,
    reason: Option<&'static str>,
    error: Option<LoopError>,
}

impl LoopStep {
    fn of(kind: &'static str) -> Self {
        Self { kind, request: None, count: None, calls: Vec::new(), reason: None, error: None }
    }

    fn lacks(&self, name: &str) -> PyErr {
        PyAttributeError::new_err(format!("a {} step has no attribute {name:?}", self.kind))
    }
}

#[pymethods]
impl LoopStep {
    #[getter]
    fn kind(&self) -> &'static str {
        self.kind
    }

    /// Of `send`: the request.
    #[getter]
    fn request(&self, py: Python<'_>) -> PyResult<Py<RoundRequest>> {
        self.request.as_ref().map(|request| request.clone_ref(py)).ok_or_else(|| self.lacks("request"))
    }

    /// Of `count`: the request to count.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<Py<CountRequest>> {
        self.count.as_ref().map(|count| count.clone_ref(py)).ok_or_else(|| self.lacks("count"))
    }

    /// Of `calls`: the place in the batch, the id, the name and the arguments of each.
    #[getter]
    fn calls<'py>(&self, py: Python<'py>) -> PyResult<Vec<Call<'py>>> {
        self.calls
            .iter()
            .map(|(index, call)| Ok((*index, call.id.clone(), call.name.clone(), to_dict(py, &call.arguments)?)))
            .collect()
    }

    /// Of `compact`: `precheck` or `provider`.
    #[getter]
    fn reason(&self) -> PyResult<&'static str> {
        self.reason.ok_or_else(|| self.lacks("reason"))
    }

    /// Of `failed`: the exception.
    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        loop_error(py, self.error.as_ref().ok_or_else(|| self.lacks("error"))?)
    }
}
