//! Conversations read from JSON text or from Python objects, and mended ones.

use std::sync::Arc;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyString};
use runvil_core::json::{JsonLoadError, read_records};
use runvil_core::list::MessageList;
use runvil_core::record::Record;
use runvil_core::repair::{self, ChangeKind};

use super::failure::{error, refused, unreadable};
use super::reading::{Forms, Reader};
use super::text;
use super::values::type_name;

/// Reads JSON text, or a list of records.
pub(super) fn from_json(data: &Bound<'_, PyAny>) -> PyResult<MessageList> {
    if let Some(list) = from_text(data, MessageList::from_json)? {
        return Ok(list);
    }
    if text::items(data).is_none() {
        let name = type_name(data);
        let message = format!("from_json takes bytes, str, a buffer or a list of records, got {name}");
        return Err(PyTypeError::new_err(message));
    }
    let mut reader = Reader::new(Forms::Either, 1).placed_after(false);
    reader.read_all(data)?;
    let records = reader.into_records();
    let mut list = MessageList::new();
    data.py().detach(|| list.extend(records)).map_err(refused)?;
    Ok(list)
}

/// Reads the records of a history that is JSON text. `None` when it is none.
pub(super) fn history_from_text(data: &Bound<'_, PyAny>) -> PyResult<Option<Vec<Arc<Record>>>> {
    from_text(data, read_records)
}

/// Reads JSON text, be it bytes, a string or a buffer. `None` when it is none of them.
fn from_text<T: Send>(
    data: &Bound<'_, PyAny>,
    read: impl Fn(&[u8]) -> Result<T, JsonLoadError> + Send + Sync,
) -> PyResult<Option<T>> {
    let py = data.py();
    let result = if let Ok(bytes) = data.cast::<PyBytes>() {
        let bytes = bytes.as_bytes();
        py.detach(|| read(bytes))
    } else if let Ok(text) = data.cast::<PyString>() {
        let text = text.to_str().map_err(|_| error("not_utf8", "the JSON text holds a lone surrogate"))?;
        py.detach(|| read(text.as_bytes()))
    } else if let Ok(buffer) = PyBuffer::<u8>::get(data) {
        // A copy: whoever owns the buffer may write to it meanwhile.
        let bytes = buffer.to_vec(py)?;
        py.detach(|| read(&bytes))
    } else {
        return Ok(None);
    };
    result.map(Some).map_err(unreadable)
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
