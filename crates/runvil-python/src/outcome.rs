//! `Event` and `Outcome`: what a run reports and how it ends.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use runvil_core::failure::{FailureKind, ModelFailure};
use runvil_engine::error::RunError;
use runvil_engine::{event, outcome};

use crate::convert::{to_dict, to_python};

/// Something a run reports.
#[pyclass(frozen, module = "runvil._native")]
pub(crate) struct Event {
    inner: event::Event,
}

impl Event {
    pub(crate) fn new(inner: event::Event) -> Self {
        Self { inner }
    }
}

#[pymethods]
impl Event {
    #[getter]
    fn kind(&self) -> &'static str {
        self.inner.kind
    }

    /// The event as one flat JSON object.
    fn to_json(&self) -> String {
        self.inner.to_value().to_string()
    }

    /// The event as a flat dict.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        to_python(py, &self.inner.to_value())
    }

    fn __repr__(&self) -> String {
        format!("Event({}, seq {})", self.inner.kind, self.inner.seq)
    }
}

/// How a run ended.
#[pyclass(frozen, module = "runvil._native")]
pub(crate) struct Outcome {
    inner: outcome::Outcome,
}

impl Outcome {
    pub(crate) fn new(inner: outcome::Outcome) -> Self {
        Self { inner }
    }
}

#[pymethods]
impl Outcome {
    #[getter]
    fn status(&self) -> &'static str {
        match self.inner.ending {
            outcome::Ending::Completed(_) => "completed",
            outcome::Ending::Failed(_) => "failed",
            outcome::Ending::Cancelled => "cancelled",
        }
    }

    #[getter]
    fn text(&self) -> Option<&str> {
        match &self.inner.ending {
            outcome::Ending::Completed(text) => Some(text),
            _ => None,
        }
    }

    #[getter]
    fn error<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        match &self.inner.ending {
            outcome::Ending::Failed(error) => error_dict(py, error).map(Some),
            _ => Ok(None),
        }
    }

    /// Replies received.
    #[getter]
    fn turns(&self) -> u64 {
        self.inner.turns
    }

    /// Token sums, by name; a count that no reply reported is absent.
    #[getter]
    fn usage<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        to_dict(py, &self.inner.usage_fields())
    }
}

fn error_dict<'py>(py: Python<'py>, error: &RunError) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("kind", error.kind.as_str())?;
    dict.set_item("message", &error.message)?;
    let texts = [
        ("parse_kind", error.parse_kind),
        ("reason", error.reason.as_deref()),
        ("finish_reason", error.finish_reason.as_deref()),
        ("name", error.name.as_deref()),
        ("detail", error.detail.as_deref()),
    ];
    for (key, text) in texts {
        if let Some(text) = text {
            dict.set_item(key, text)?;
        }
    }
    if let Some(status) = error.status {
        dict.set_item("status", status)?;
    }
    for (key, tokens) in [("used", error.used), ("limit", error.limit)] {
        if let Some(tokens) = tokens {
            dict.set_item(key, tokens)?;
        }
    }
    if let Some(location) = &error.location {
        let place = PyDict::new(py);
        place.set_item("path", &location.path)?;
        place.set_item("line", location.line)?;
        if let Some(column) = location.column {
            place.set_item("column", column)?;
        }
        dict.set_item("location", place)?;
    }
    Ok(dict)
}

/// The kind of a failure by its name.
pub(crate) fn failure_kind(name: &str) -> PyResult<FailureKind> {
    FailureKind::from_name(name).ok_or_else(|| {
        let known: Vec<&str> = FailureKind::ALL.iter().map(|kind| kind.name()).collect();
        PyValueError::new_err(format!("{name:?} is no kind of model failure; known kinds: {}", known.join(", ")))
    })
}

/// The message of a model failure.
#[pyfunction]
#[pyo3(signature = (kind, status, note))]
pub(crate) fn failure_text(kind: &str, status: Option<u16>, note: Option<String>) -> PyResult<String> {
    Ok(ModelFailure { status, note, ..ModelFailure::new(failure_kind(kind)?) }.message())
}

/// The message of a `context_exhausted` error with this reason.
#[pyfunction]
pub(crate) fn exhausted_message(reason: &str) -> String {
    runvil_core::precheck::exhausted_message(reason)
}
