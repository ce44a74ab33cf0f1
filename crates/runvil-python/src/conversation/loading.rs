//! Conversations read from JSON text or from Python objects, and mended ones.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use runvil_core::list::MessageList;
use runvil_core::record::Record;
use runvil_core::repair::{self, ChangeKind};

use super::failure::{error, refused, unreadable};
use super::reading::{Forms, Reader};
use super::text;
use super::values::type_name;

/// Reads JSON text, or a list of records.
pub(super) fn from_json(data: &Bound<'_, PyAny>) -> PyResult<MessageList> {
    let py = data.py();
    if let Ok(bytes) = data.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        return py.detach(|| MessageList::from_json(bytes)).map_err(unreadable);
    }
    if let Ok(text) = data.cast::<PyString>() {
        let text = text.to_str().map_err(|_| error("not_utf8", "the JSON text holds a lone surrogate"))?;
        return py.detach(|| MessageList::from_json_text(text)).map_err(unreadable);
    }
    if text::items(data).is_some() {
        let mut reader = Reader::new(Forms::Either, 1).placed_after(false);
        reader.read_all(data)?;
        let records = reader.into_records();
        let mut list = MessageList::new();
        py.detach(|| list.extend(records)).map_err(refused)?;
        return Ok(list);
    }
    if let Ok(buffer) = PyBuffer::<u8>::get(data) {
        let bytes = buffer.to_vec(py)?;
        return py.detach(|| MessageList::from_json(&bytes)).map_err(unreadable);
    }
    let name = type_name(data);
    Err(PyTypeError::new_err(format!("from_json takes bytes, str, a buffer or a list of records, got {name}")))
}

/// A change that mending a history made.
#[pyclass(frozen, get_all, eq, module = "runvil._native")]
#[derive(PartialEq)]
pub(crate) struct Change {
    /// The record's position, from 1, among those that were given.
    position: usize,
    kind: &'static str,
    message: String,
}

#[pymethods]
impl Change {
    fn __repr__(&self) -> String {
        format!("<Change {} at {}>", self.kind, self.position)
    }
}

/// Makes a list that passes every check.
pub(super) fn repair(py: Python<'_>, records: Vec<Arc<Record>>) -> (MessageList, Vec<Change>) {
    let (list, changes) = py.detach(|| repair::repair(records));
    let changes = changes.into_iter().map(|change| Change {
        position: change.position,
        kind: kind_name(&change.kind),
        message: change.to_string(),
    });
    (list, changes.collect())
}

fn kind_name(kind: &ChangeKind) -> &'static str {
    match kind {
        ChangeKind::SystemMoved => "system_moved",
        ChangeKind::SystemFlattened { .. } => "system_flattened",
        ChangeKind::EmptyPartsRemoved { .. } => "empty_parts_removed",
        ChangeKind::CallsRemoved { .. } => "calls_removed",
        ChangeKind::IdRenamed { .. } => "id_renamed",
        ChangeKind::OrphanRemoved { .. } => "orphan_removed",
        ChangeKind::ResultMoved { .. } => "result_moved",
        ChangeKind::ResultAdded { .. } => "result_added",
    }
}
