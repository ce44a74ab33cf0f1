//! Composed requests.

use bytes::Bytes;
use pyo3::exceptions::{PyRuntimeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyMemoryView};
use runvil_core::anchor::Anchor;
use runvil_core::body::Body;
use runvil_core::precheck;
use runvil_core::request::Request;
use serde_json::Map;

use super::lending::{Shelf, lend, memoryview};
use super::pause::Pause;
use super::shared::{MANY, drop_detached};
use crate::convert::{from_python, to_python};

/// Bytes that are copied within a few microseconds.
const FEW_BYTES: usize = 64 * 1024;

/// What one round sends: the composed messages of a conversation, frozen.
#[pyclass(frozen, name = "ComposedRequest", module = "runvil._native", weakref)]
pub(crate) struct ComposedRequest {
    request: Request,
    anchor: Option<Anchor>,
    shelf: Shelf,
    messages: PyOnceLock<Py<PyList>>,
}

impl ComposedRequest {
    pub(super) fn new(request: Request, anchor: Option<Anchor>, shelf: Shelf) -> Self {
        Self { request, anchor, shelf, messages: PyOnceLock::new() }
    }

    pub(super) fn request(&self) -> &Request {
        &self.request
    }

    fn parts(
        &self,
        model: &str,
        tools: Option<&Bound<'_, PyAny>>,
        options: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Body> {
        let tools = tools.map(|tools| from_python(tools, "tools")).transpose()?;
        let mut fields = Map::new();
        for (name, value) in options.into_iter().flatten() {
            let name: String = name.extract()?;
            if name == "messages" {
                return Err(PyTypeError::new_err("the messages of a body are those of its request"));
            }
            let value = from_python(&value, &format!("option {name}"))?;
            if !value.is_null() {
                fields.insert(name, value);
            }
        }
        Ok(self.request.body_parts(model, tools.as_ref().filter(|tools| !tools.is_null()), &fields))
    }
}

impl Drop for ComposedRequest {
    fn drop(&mut self) {
        if self.request.record_count() > MANY && !self.request.shares_records() {
            drop_detached(std::mem::take(&mut self.request));
        }
    }
}

#[pymethods]
impl ComposedRequest {
    /// The messages in their wire form. Made when they are first read.
    #[getter]
    fn messages<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let messages = self.messages.get_or_try_init(py, || {
            let messages = py.detach(|| self.request.messages());
            let list = PyList::empty(py);
            let mut pause = Pause::new(py);
            for message in &messages {
                list.append(to_python(py, message)?)?;
                pause.after_record();
            }
            drop_detached(messages);
            PyResult::Ok(list.unbind())
        })?;
        Ok(messages.bind(py).clone())
    }

    fn __len__(&self) -> usize {
        usize::try_from(self.request.message_count()).unwrap_or(usize::MAX)
    }

    /// The estimated tokens of the messages.
    #[getter]
    fn estimate(&self) -> u64 {
        self.request.estimate()
    }

    /// Checks the request against a context window. All numbers are tokens.
    #[pyo3(signature = (*, context, max_tokens = None, model = None))]
    fn precheck(&self, py: Python<'_>, context: u64, max_tokens: Option<u64>, model: Option<&str>) -> Precheck {
        let measured = || self.anchor.as_ref()?.count(&self.request, model);
        // The records may have to be compared one by one.
        let long = self.anchor.is_some() && self.request.record_count() > MANY;
        let measured = if long { py.detach(measured) } else { measured() };
        let count = measured.unwrap_or_else(|| self.request.estimate());
        let precheck::Precheck { admitted, count, reserve, total } =
            precheck::Precheck::new(count, context, max_tokens);
        Precheck { admitted, count, reserve, total }
    }

    /// The messages as a JSON array.
    fn to_json<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        joined(py, self.request.total_len(), self.request.chunks())
    }

    /// The whole JSON body of a chat completion request.
    #[pyo3(signature = (*, model, tools = None, **options))]
    fn body<'py>(
        &self,
        py: Python<'py>,
        model: &str,
        tools: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let body = self.parts(model, tools, options)?;
        joined(py, body.len(), body.chunks())
    }

    /// The bytes of `to_json`, lent as a memoryview.
    fn json_view<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyMemoryView>> {
        let bytes = py.detach(|| Bytes::from(self.request.to_json()));
        memoryview(py, bytes)
    }

    /// The bytes of `body`, lent as a memoryview.
    #[pyo3(signature = (*, model, tools = None, **options))]
    fn body_view<'py>(
        &self,
        py: Python<'py>,
        model: &str,
        tools: Option<&Bound<'py, PyAny>>,
        options: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyMemoryView>> {
        let body = self.parts(model, tools, options)?;
        lend(py, &body, &self.shelf)
    }

    fn __repr__(&self) -> String {
        format!("<ComposedRequest of {} messages>", self.request.message_count())
    }
}

/// Bytes in one piece, written into the Python object itself.
fn joined<'py, 'a>(
    py: Python<'py>,
    len: usize,
    chunks: impl Iterator<Item = &'a [u8]> + Send,
) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, len, |mut rest| {
        let fill = || {
            for chunk in chunks {
                let (place, behind) = std::mem::take(&mut rest).split_at_mut_checked(chunk.len())?;
                place.copy_from_slice(chunk);
                rest = behind;
            }
            rest.is_empty().then_some(())
        };
        let filled = if len > FEW_BYTES { py.detach(fill) } else { fill() };
        filled.ok_or_else(|| PyRuntimeError::new_err("the length of a request was miscounted"))
    })
}

/// Whether a request fits a model's context window. All counts are tokens.
#[pyclass(frozen, get_all, eq, module = "runvil._native")]
#[derive(PartialEq)]
pub(crate) struct Precheck {
    /// Whether it may be sent.
    admitted: bool,
    /// What it was counted as.
    count: u64,
    /// The room kept for the reply.
    reserve: u64,
    /// The sum, which the window is compared with.
    total: u64,
}

#[pymethods]
impl Precheck {
    fn __bool__(&self) -> bool {
        self.admitted
    }

    fn __repr__(&self) -> String {
        let Self { admitted, count, reserve, total } = self;
        let admitted = if *admitted { "True" } else { "False" };
        format!("Precheck(admitted={admitted}, count={count}, reserve={reserve}, total={total})")
    }
}
