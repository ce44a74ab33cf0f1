//! `RoundRequest`: a model request that is ready to leave.

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyMapping};
use runvil_core::body::Body;
use runvil_core::strict::mark_strict_tools;
use runvil_engine::effect::{Count, Round};
use serde_json::Value;

use crate::convert::{from_python, to_dict, to_python};

/// A model request. Counts, reserve and window are tokens. Its messages are frozen, and shared until they are read.
#[pyclass(frozen, module = "runvil._native")]
pub(crate) struct RoundRequest {
    round: Round,
}

impl RoundRequest {
    pub(crate) fn new(round: Round) -> Self {
        Self { round }
    }

    /// The whole request body: the messages, then the given fields. `model` names the model; `messages` cannot be given.
    pub(crate) fn body_parts(&self, fields: &Bound<'_, PyMapping>, strict_tools: bool) -> PyResult<Body> {
        let mut fields = match from_python(fields.as_any(), "a field of the request body")? {
            Value::Object(fields) => fields,
            _ => serde_json::Map::new(),
        };
        let model = match fields.get("model") {
            Some(Value::String(model)) => model.clone(),
            _ => self.round.model_id.clone(),
        };
        let own = || Value::Array(self.round.tools.to_wire().to_vec());
        let mut tools = fields.shift_remove("tools").unwrap_or_else(own);
        if strict_tools {
            mark_strict_tools(&mut tools);
        }
        Ok(self.round.request.body_parts(&model, Some(&tools), &fields))
    }
}

impl RoundRequest {
    /// The model's context window, in tokens.
    pub(crate) fn window_tokens(&self) -> u64 {
        self.round.window
    }
}

#[pymethods]
impl RoundRequest {
    #[getter]
    fn model(&self) -> &str {
        &self.round.model
    }

    #[getter]
    fn model_id(&self) -> &str {
        &self.round.model_id
    }

    #[getter]
    fn role(&self) -> Option<&str> {
        self.round.role.as_deref()
    }

    #[getter]
    fn handle(&self) -> Option<&str> {
        self.round.handle.as_deref()
    }

    #[getter]
    fn round(&self) -> u64 {
        self.round.round
    }

    #[getter]
    fn origin(&self) -> &'static str {
        self.round.origin.as_str()
    }

    #[getter]
    fn conversation(&self) -> Option<&str> {
        self.round.conversation.as_deref()
    }

    #[getter]
    fn section(&self) -> &str {
        &self.round.section
    }

    #[getter]
    fn estimate(&self) -> u64 {
        self.round.estimate
    }

    #[getter]
    fn count(&self) -> u64 {
        self.round.count
    }

    #[getter]
    fn reserve(&self) -> u64 {
        self.round.reserve
    }

    #[getter]
    fn window(&self) -> u64 {
        self.round.window
    }

    #[getter]
    fn estimator(&self) -> Option<&str> {
        self.round.estimator.as_deref()
    }

    /// The tools in wire form.
    #[getter]
    fn tools<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &Value::Array(self.round.tools.to_wire().to_vec()))
    }

    #[getter]
    fn tool_names(&self) -> Vec<String> {
        self.round.tools.names().to_vec()
    }

    #[getter]
    fn options<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        to_dict(py, &self.round.options)
    }

    /// The messages in wire form.
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let messages = py.detach(|| self.round.request.messages());
        to_python(py, &Value::Array(messages))
    }

    /// The messages as a JSON array.
    fn messages_json<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let bytes = py.detach(|| self.round.request.to_json());
        PyBytes::new(py, &bytes)
    }

    /// What it adds to an earlier request: how many messages both begin with, and the others as a JSON array.
    fn difference<'py>(&self, py: Python<'py>, earlier: &Bound<'py, Self>) -> (u64, Bound<'py, PyBytes>) {
        let earlier = earlier.get();
        let (shared, rest) = py.detach(|| self.round.request.difference(&earlier.round.request));
        (shared, PyBytes::new(py, &rest))
    }

    /// A whole request body: the messages, the tools when there are any, then the given fields. `model` names the model; `messages` cannot be given.
    fn body<'py>(&self, py: Python<'py>, fields: &Bound<'py, PyMapping>) -> PyResult<Bound<'py, PyBytes>> {
        let body = self.body_parts(fields, false)?;
        let bytes = py.detach(|| body.to_bytes());
        Ok(PyBytes::new(py, &bytes))
    }
}

/// A request whose tokens are to be counted before its precheck.
#[pyclass(frozen, module = "runvil._native")]
pub(crate) struct CountRequest {
    count: Count,
}

impl CountRequest {
    pub(crate) fn new(count: Count) -> Self {
        Self { count }
    }
}

#[pymethods]
impl CountRequest {
    #[getter]
    fn model(&self) -> &str {
        &self.count.model
    }

    #[getter]
    fn role(&self) -> Option<&str> {
        self.count.role.as_deref()
    }

    #[getter]
    fn conversation(&self) -> Option<&str> {
        self.count.conversation.as_deref()
    }

    /// The messages in wire form.
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let messages = py.detach(|| self.count.request.messages());
        to_python(py, &Value::Array(messages))
    }

    /// The tools in wire form.
    #[getter]
    fn tools<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &Value::Array(self.count.tools.to_wire().to_vec()))
    }
}
