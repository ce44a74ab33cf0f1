//! `Run`, `Step` and `Effect`: the state machine as a driver in Python sees it.

use std::sync::{Mutex, TryLockError};

use pyo3::exceptions::{PyAttributeError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use runvil_engine::effect::{self, EffectId};
use runvil_engine::run::{self, Step as EngineStep};
use runvil_lua::section::CancelFlag;

use crate::outcome::{Event, Outcome};
use crate::prompt::Prompt;
use crate::round::{CountRequest, RoundRequest};
use crate::{answers, params};

/// One run of a prompt. Step it from one thread at a time; cancel it from any.
#[pyclass(frozen, module = "runvil._native")]
pub(crate) struct Run {
    // Never locked while attached to the interpreter: a step can take long.
    run: Mutex<run::Run>,
    cancel: CancelFlag,
}

#[pymethods]
impl Run {
    #[new]
    fn new(py: Python<'_>, prompt: &Prompt, params: &Bound<'_, PyDict>) -> PyResult<Self> {
        let params = params::read(params)?;
        let prompt = prompt.inner.clone();
        let run = py.detach(|| run::Run::new(prompt, params));
        Ok(Self { cancel: run.cancel_flag(), run: Mutex::new(run) })
    }

    /// Runs Lua until every chain waits, detached from the interpreter.
    fn step(&self, py: Python<'_>) -> PyResult<Step> {
        let step = self.stepped(py, run::Run::step)?;
        Step::new(py, step)
    }

    /// Begins a step and does about as much work as this many Lua instructions; `None` when the step is not finished,
    /// which `step` then goes on with.
    fn step_within(&self, py: Python<'_>, work: u64) -> PyResult<Option<Step>> {
        let step = self.stepped(py, |run| run.step_within(work))?;
        step.map(|step| Step::new(py, step)).transpose()
    }

    /// Gives the answer to an effect: `(kind, data)`.
    #[expect(clippy::needless_pass_by_value, reason = "a tuple can only be extracted by value")]
    fn resume(&self, py: Python<'_>, effect_id: u64, answer: (String, Bound<'_, PyAny>)) -> PyResult<()> {
        let answer = answers::read(&answer.0, &answer.1)?;
        py.detach(|| {
            let mut run = self.run.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            run.resume(EffectId(effect_id), answer);
        });
        Ok(())
    }

    /// Asks the run to end.
    fn cancel(&self) {
        self.cancel.cancel();
    }

    /// Whether the outcome is settled, so that effects still out may be dropped.
    #[getter]
    fn decided(&self) -> bool {
        match self.run.try_lock() {
            Ok(run) => run.decided(),
            Err(_) => self.cancel.is_cancelled(),
        }
    }
}

impl Run {
    /// Does a step, detached from the interpreter.
    fn stepped<T: Send>(&self, py: Python<'_>, step: impl FnOnce(&mut run::Run) -> T + Send) -> PyResult<T> {
        py.detach(|| match self.run.try_lock() {
            Ok(mut run) => Some(step(&mut run)),
            Err(TryLockError::Poisoned(broken)) => Some(step(&mut broken.into_inner())),
            Err(TryLockError::WouldBlock) => None,
        })
        .ok_or_else(|| PyRuntimeError::new_err("this run is already being stepped"))
    }
}

/// What one step gives.
#[pyclass(frozen, module = "runvil._native")]
pub(crate) struct Step {
    #[pyo3(get)]
    done: bool,
    effects: Vec<Py<Effect>>,
    events: Vec<Py<Event>>,
    outcome: Option<Py<Outcome>>,
}

impl Step {
    fn new(py: Python<'_>, step: EngineStep) -> PyResult<Self> {
        let (effects, events, outcome) = match step {
            EngineStep::Pending { effects, events } => (effects, events, None),
            EngineStep::Done { outcome, events } => (Vec::new(), events, Some(outcome)),
        };
        Ok(Self {
            done: outcome.is_some(),
            effects: effects.into_iter().map(|(id, effect)| Effect::new(py, id, effect)).collect::<PyResult<_>>()?,
            events: events.into_iter().map(|event| Py::new(py, Event::new(event))).collect::<PyResult<_>>()?,
            outcome: outcome.map(|outcome| Py::new(py, Outcome::new(outcome))).transpose()?,
        })
    }
}

#[pymethods]
impl Step {
    #[getter]
    fn effects(&self, py: Python<'_>) -> Vec<Py<Effect>> {
        self.effects.iter().map(|effect| effect.clone_ref(py)).collect()
    }

    #[getter]
    fn events(&self, py: Python<'_>) -> Vec<Py<Event>> {
        self.events.iter().map(|event| event.clone_ref(py)).collect()
    }

    #[getter]
    fn outcome(&self, py: Python<'_>) -> Option<Py<Outcome>> {
        self.outcome.as_ref().map(|outcome| outcome.clone_ref(py))
    }
}

/// Work for the driver. Reading what another kind carries raises `AttributeError`.
#[pyclass(frozen, module = "runvil._native")]
pub(crate) struct Effect {
    #[pyo3(get)]
    id: u64,
    work: Work,
}

enum Work {
    Round(Py<RoundRequest>),
    CountTokens(Py<CountRequest>),
    RenderPacks(Vec<String>),
    ToolCall(Box<effect::PackCall>),
    LoadLibrary(String),
    UserInput,
}

impl Effect {
    fn new(py: Python<'_>, id: EffectId, effect: effect::Effect) -> PyResult<Py<Self>> {
        let work = match effect {
            effect::Effect::Round(round) => Work::Round(Py::new(py, RoundRequest::new(*round))?),
            effect::Effect::CountTokens(count) => Work::CountTokens(Py::new(py, CountRequest::new(*count))?),
            effect::Effect::RenderPacks { tools } => Work::RenderPacks(tools),
            effect::Effect::ToolCall(call) => Work::ToolCall(call),
            effect::Effect::LoadLibrary { name } => Work::LoadLibrary(name),
            effect::Effect::UserInput => Work::UserInput,
        };
        Py::new(py, Self { id: id.0, work })
    }

    fn call(&self, name: &str) -> PyResult<&effect::PackCall> {
        match &self.work {
            Work::ToolCall(call) => Ok(call),
            _ => Err(self.lacks(name)),
        }
    }

    fn lacks(&self, name: &str) -> PyErr {
        PyAttributeError::new_err(format!("a {} effect has no attribute {name:?}", self.kind()))
    }
}

#[pymethods]
impl Effect {
    #[getter]
    fn kind(&self) -> &'static str {
        match &self.work {
            Work::Round(_) => "round",
            Work::CountTokens(_) => "count_tokens",
            Work::RenderPacks(_) => "render_packs",
            Work::ToolCall(_) => "tool_call",
            Work::LoadLibrary(_) => "load_library",
            Work::UserInput => "user_input",
        }
    }

    #[getter]
    fn request(&self, py: Python<'_>) -> PyResult<Py<RoundRequest>> {
        match &self.work {
            Work::Round(request) => Ok(request.clone_ref(py)),
            _ => Err(self.lacks("request")),
        }
    }

    #[getter]
    fn name(&self) -> PyResult<&str> {
        match &self.work {
            Work::LoadLibrary(name) => Ok(name),
            _ => Err(self.lacks("name")),
        }
    }

    /// The request to count.
    #[getter]
    fn count(&self, py: Python<'_>) -> PyResult<Py<CountRequest>> {
        match &self.work {
            Work::CountTokens(count) => Ok(count.clone_ref(py)),
            _ => Err(self.lacks("count")),
        }
    }

    /// The paths of the tools to render, in order.
    #[getter]
    fn tools(&self) -> PyResult<Vec<String>> {
        match &self.work {
            Work::RenderPacks(tools) => Ok(tools.clone()),
            _ => Err(self.lacks("tools")),
        }
    }

    /// The path of the tool to call.
    #[getter]
    fn path(&self) -> PyResult<&str> {
        Ok(&self.call("path")?.path)
    }

    /// The arguments of the tool call, a fresh dict.
    #[getter]
    fn arguments<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        crate::convert::to_dict(py, &self.call("arguments")?.arguments)
    }

    /// Who calls the tool: `script` or `model`.
    #[getter]
    fn caller(&self) -> PyResult<&'static str> {
        Ok(self.call("caller")?.caller.as_str())
    }

    /// The model's id of the tool call; empty for a script.
    #[getter]
    fn call_id(&self) -> PyResult<&str> {
        Ok(&self.call("call_id")?.call_id)
    }

    /// The heading of the section that calls the tool.
    #[getter]
    fn section(&self) -> PyResult<&str> {
        Ok(&self.call("section")?.section)
    }

    fn __repr__(&self) -> String {
        format!("Effect({}, {})", self.id, self.kind())
    }
}
