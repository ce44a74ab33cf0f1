//! Records as Python sees them: views that only read.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use pyo3::exceptions::PyAttributeError;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use runvil_core::record::Record;
use runvil_core::role::Role;

use crate::convert::to_python;

/// A record of a conversation. It never changes, whatever happens to the conversation.
#[pyclass(frozen, name = "Record", module = "runvil._native", weakref)]
pub(crate) struct RecordView {
    record: Arc<Record>,
}

/// The fields of a record, in their order.
const FIELDS: [&str; 5] = ["role", "content", "tool_calls", "tool_call_id", "meta"];

impl RecordView {
    pub(super) fn new(record: Arc<Record>) -> Self {
        Self { record }
    }

    pub(super) fn record(&self) -> &Arc<Record> {
        &self.record
    }

    fn field<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(match name {
            "role" => Some(self.role(py).clone().into_any()),
            "content" => Some(self.content(py)?),
            "tool_calls" => self.tool_calls(py)?,
            "tool_call_id" => self.tool_call_id(py).map(Bound::into_any),
            _ => self.meta(py)?,
        })
    }
}

#[pymethods]
impl RecordView {
    #[getter]
    pub(super) fn role<'py>(&self, py: Python<'py>) -> &Bound<'py, PyString> {
        role_name(py, self.record.role())
    }

    #[getter]
    fn content<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        match self.record.content_text() {
            Some(text) => Ok(PyString::new(py, &text).into_any()),
            None => to_python(py, &self.record.content()),
        }
    }

    #[getter]
    fn tool_calls<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.record.tool_calls().map(|calls| to_python(py, &calls)).transpose()
    }

    #[getter]
    fn tool_call_id<'py>(&self, py: Python<'py>) -> Option<Bound<'py, PyString>> {
        self.record.tool_call_id().map(|id| PyString::new(py, &id))
    }

    #[getter]
    fn meta<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        self.record.meta().map(|meta| to_python(py, &meta)).transpose()
    }

    /// The fields that the record has, as a new dict.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for name in FIELDS {
            if let Some(value) = self.field(py, name)? {
                dict.set_item(name, value)?;
            }
        }
        Ok(dict)
    }

    fn __eq__(&self, other: &Bound<'_, PyAny>) -> Option<bool> {
        Some(*self.record == *other.cast::<Self>().ok()?.get().record)
    }

    fn __hash__(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.record.wire().hash(&mut hasher);
        self.record.meta_json().hash(&mut hasher);
        hasher.finish()
    }

    #[allow(clippy::unused_self)]
    fn __setattr__(&self, _name: &Bound<'_, PyAny>, _value: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(read_only())
    }

    #[allow(clippy::unused_self)]
    fn __delattr__(&self, _name: &Bound<'_, PyAny>) -> PyResult<()> {
        Err(read_only())
    }

    fn __repr__(&self) -> String {
        format!("<Record {}>", self.record.role())
    }
}

fn read_only() -> PyErr {
    PyAttributeError::new_err(
        "records read from messages are read-only; rewrite history with models.compact(compactor, reason)",
    )
}

/// The role's name. The same object each time.
pub(super) fn role_name(py: Python<'_>, role: Role) -> &Bound<'_, PyString> {
    match role {
        Role::System => intern!(py, "system"),
        Role::User => intern!(py, "user"),
        Role::Assistant => intern!(py, "assistant"),
        Role::Tool => intern!(py, "tool"),
    }
}

/// The texts of the content's parts, one after the other.
pub(super) fn part_texts(record: &Record) -> String {
    let content = record.content();
    content.as_array().into_iter().flatten().filter_map(|part| part["text"].as_str()).collect()
}
