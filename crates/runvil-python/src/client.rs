//! `HttpClient`: the model client, for Python's event loop. A call runs on the tokio runtime.

use std::process;
use std::sync::OnceLock;
use std::time::Duration;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping};
use pyo3::{intern, pyclass, pyfunction, pymethods};
use runvil_client::{Bytes, Client, ClientOptions, Progress, RequestBody, Secret};
use runvil_core::body::EmptyContent;
use runvil_core::failure::ModelFailure;
use runvil_core::overflow::{self, Classifier, OverflowMode};
use runvil_core::reply::{CallArguments, Reply, ReplyCall, Usage};
use serde_json::Value;

use crate::delivery::{Call, Ending};
use crate::round::RoundRequest;

/// The kind of a failed provider answer, by its HTTP status and its body.
///
/// `streamed=True`, or no status, is an error inside a started stream: its body alone decides.
#[pyfunction]
#[pyo3(signature = (status, body, streamed=false, overflow="strict"))]
pub(crate) fn classify(status: Option<i64>, body: &str, streamed: bool, overflow: &str) -> PyResult<&'static str> {
    let status = match status {
        None => None,
        Some(status) => match u16::try_from(status) {
            Ok(status @ 100..=999) => Some(status),
            _ => return Err(PyValueError::new_err(format!("status must be an HTTP status such as 400, got {status}"))),
        },
    };
    let classifier = Classifier::new(overflow_mode(overflow)?, Vec::new());
    Ok(classifier.classify(status.filter(|_| !streamed), body).kind.name())
}

fn overflow_mode(name: &str) -> PyResult<OverflowMode> {
    OverflowMode::from_name(name)
        .ok_or_else(|| PyValueError::new_err(format!("overflow must be \"strict\" or \"extended\", got {name:?}")))
}

/// A rule of the application's: failed answers with this wording are, or are not, context overflows.
///
/// `pattern` is a regular expression, looked for in the message of the answer; its groups `used` and `limit`, where it has
/// them, are the token counts of the error. With a `status` only answers of that HTTP status fit.
#[pyclass(frozen, name = "OverflowRule", module = "runvil._native")]
pub(crate) struct OverflowRule {
    rule: overflow::OverflowRule,
}

#[pymethods]
impl OverflowRule {
    #[new]
    #[pyo3(signature = (pattern, *, status=None, overflow=true))]
    fn new(pattern: &str, status: Option<u16>, overflow: bool) -> PyResult<Self> {
        let rule = overflow::OverflowRule::new(pattern, status, overflow);
        Ok(Self { rule: rule.map_err(|error| PyValueError::new_err(error.to_string()))? })
    }

    fn __repr__(&self) -> String {
        let kind = if self.rule.is_overflow() { "" } else { ", overflow=False" };
        let status = self.rule.status().map(|status| format!(", status={status}")).unwrap_or_default();
        format!("OverflowRule({:?}{status}{kind})", self.rule.pattern())
    }
}

/// Sends chat completion requests to an OpenAI-compatible server.
///
/// A client keeps its connections open between requests. It may be used from any event loop.
#[pyclass(frozen, module = "runvil._native")]
pub(crate) struct HttpClient {
    client: Client,
}

#[pymethods]
impl HttpClient {
    /// `timeout` (seconds) limits the wait for the answer to begin and then for each next part, `connect_timeout` the wait
    /// for a connection. `retries` counts further tries, none of them after the first fragment. `max_response_bytes`
    /// limits the size of an answer. `overflow` and `overflow_rules` tell which failures are context overflows. With `proxy_from_environment` requests go through the proxies that the environment
    /// names.
    #[new]
    #[pyo3(signature = (base_url, api_key=None, headers=None, timeout=120.0, connect_timeout=10.0, retries=2, max_response_bytes=16_777_216, proxy_from_environment=false, overflow="strict", overflow_rules=None))]
    #[expect(clippy::too_many_arguments, reason = "one for each keyword")]
    fn new(
        base_url: String,
        api_key: Option<String>,
        headers: Option<Bound<'_, PyMapping>>,
        timeout: f64,
        connect_timeout: f64,
        retries: i64,
        max_response_bytes: i64,
        proxy_from_environment: bool,
        overflow: &str,
        overflow_rules: Option<&Bound<'_, PyList>>,
    ) -> PyResult<Self> {
        let mut options = ClientOptions::new(base_url);
        options.api_key = api_key.map(Secret::new);
        if let Some(headers) = headers {
            for item in headers.items()? {
                let pair = item.extract::<(String, String)>();
                // Without the cause, which may show a value.
                let pair = pair.map_err(|_| PyTypeError::new_err("headers must map header names to text, both str"))?;
                options.headers.push(pair);
            }
        }
        options.timeout = seconds("timeout", timeout)?;
        options.connect_timeout = seconds("connect_timeout", connect_timeout)?;
        options.retries = u32::try_from(retries)
            .map_err(|_| PyValueError::new_err(format!("retries must be between 0 and {}, got {retries}", u32::MAX)))?;
        options.max_response_bytes = u64::try_from(max_response_bytes).map_err(|_| {
            PyValueError::new_err(format!("max_response_bytes must be at least 1, got {max_response_bytes}"))
        })?;
        options.proxy_from_environment = proxy_from_environment;
        let mut rules = Vec::new();
        for rule in overflow_rules.into_iter().flatten() {
            rules.push(rule.cast::<OverflowRule>()?.get().rule.clone());
        }
        options.classifier = Classifier::new(overflow_mode(overflow)?, rules);
        let client = Client::new(options).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { client })
    }

    /// Sends one request, whose JSON `body` is ready, and returns an awaitable for the reply: a dict with the keys `text`,
    /// `tool_calls` (a list of dicts `id`, `name`, `arguments`: the provider's JSON text or None), `finish_reason`,
    /// `usage` (a dict of the reported counts, or None), `reasoning`, `model`, `metrics` and `degraded`.
    ///
    /// `on_fragment(text)` is called on the loop's thread with each piece of visible text, in order, all of them before the
    /// awaitable is done; `on_retry(number, delay, kind, status)` before the request is sent again, with the number of the
    /// retry from 1, the wait in seconds and what the try before it came to. An exception from either ends the call and is
    /// raised. A failed call raises `runvil.errors.ModelError`. Cancelling closes the connection at once.
    ///
    /// Bytes are sent without a copy; any other bytes-like object is copied.
    #[pyo3(signature = (body, on_fragment=None, on_retry=None))]
    fn complete<'py>(
        &self,
        py: Python<'py>,
        body: &Bound<'py, PyAny>,
        on_fragment: Option<Py<PyAny>>,
        on_retry: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let body = request_bytes(body)?;
        self.start(py, move || body.into(), None, on_fragment, on_retry)
    }

    /// Sends a model request with the given fields in its body; see `RoundRequest.body` and `complete`. No text of the
    /// messages becomes a Python object.
    ///
    /// `null_content` sends null for the content of an assistant message that has tool calls and no text; `strict_tools`
    /// marks the tools as strict whose schemas can be enforced.
    #[pyo3(signature = (request, fields, on_fragment=None, on_retry=None, null_content=false, strict_tools=false))]
    #[expect(clippy::too_many_arguments, reason = "one for each keyword")]
    fn send<'py>(
        &self,
        py: Python<'py>,
        request: &RoundRequest,
        fields: &Bound<'py, PyMapping>,
        on_fragment: Option<Py<PyAny>>,
        on_retry: Option<Py<PyAny>>,
        null_content: bool,
        strict_tools: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let body = request.body_parts(fields, strict_tools)?;
        let empty_content = if null_content { EmptyContent::Null } else { EmptyContent::Text };
        let window = Some(request.window_tokens());
        self.start(py, move || body.with_empty_content(empty_content).into(), window, on_fragment, on_retry)
    }

    fn __repr__(&self) -> String {
        format!("HttpClient({:?})", self.client.display_url())
    }
}

impl HttpClient {
    /// Sends one request; `body` makes its body, in another thread.
    fn start<'py>(
        &self,
        py: Python<'py>,
        body: impl FnOnce() -> RequestBody + Send + 'static,
        window: Option<u64>,
        on_fragment: Option<Py<PyAny>>,
        on_retry: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        guard_against_fork()?;
        let call = Call::new(&running_loop(py)?, on_fragment, on_retry)?;
        let future = call.future(py);
        let client = self.client.clone();
        pyo3_async_runtimes::tokio::get_runtime().spawn(async move {
            let mut ending = Ending { call: &call, outcome: None };
            let on_progress = |progress: Progress<'_>| match progress {
                Progress::Text(text) => call.send_fragment(text),
                Progress::Retry(retry) => call.send_retry(retry),
            };
            tokio::select! {
                biased;
                () = call.cancelled() => {}
                result = client.complete(body(), window, on_progress) => {
                    ending.outcome = Some(result);
                }
            }
        });
        Ok(future)
    }
}

/// Refuses to go on in a process that was forked after the runtime's threads were started: they exist in the parent only.
fn guard_against_fork() -> PyResult<()> {
    static PROCESS: OnceLock<u32> = OnceLock::new();
    let process = *PROCESS.get_or_init(process::id);
    if process == process::id() {
        return Ok(());
    }
    Err(PyRuntimeError::new_err(format!(
        "this process was forked from process {process} after that one had called a model, and cannot call any: \
         start worker processes with the \"spawn\" or \"forkserver\" method, or before the first model call"
    )))
}

/// The event loop this thread is running.
fn running_loop(py: Python<'_>) -> PyResult<Bound<'_, PyAny>> {
    static GET_RUNNING_LOOP: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    GET_RUNNING_LOOP.import(py, "asyncio", "get_running_loop")?.call0()
}

/// A request body from Python.
fn request_bytes(body: &Bound<'_, PyAny>) -> PyResult<Bytes> {
    if let Ok(bytes) = body.cast::<PyBytes>() {
        return Ok(Bytes::from_owner(PyBackedBytes::from(bytes.clone())));
    }
    match PyBuffer::<u8>::get(body) {
        Ok(buffer) => Ok(Bytes::from(buffer.to_vec(body.py())?)),
        Err(_) => Err(PyTypeError::new_err(format!("body must be bytes, got {}", body.get_type().name()?))),
    }
}

fn seconds(option: &str, value: f64) -> PyResult<Duration> {
    match Duration::try_from_secs_f64(value) {
        Ok(duration) if !duration.is_zero() => Ok(duration),
        _ => Err(PyValueError::new_err(format!("{option} must be a number of seconds above 0, got {value}"))),
    }
}

/// The Python exception for a failed call.
pub(crate) fn model_error(py: Python<'_>, failure: ModelFailure) -> PyResult<PyErr> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let fields = PyDict::new(py);
    fields.set_item(intern!(py, "kind"), failure.kind.name())?;
    fields.set_item(intern!(py, "status"), failure.status)?;
    fields.set_item(intern!(py, "detail"), failure.detail)?;
    fields.set_item(intern!(py, "note"), failure.note)?;
    fields.set_item(intern!(py, "used"), failure.used)?;
    fields.set_item(intern!(py, "limit"), failure.limit)?;
    Ok(PyErr::from_value(CLASS.import(py, "runvil.errors", "ModelError")?.call((), Some(&fields))?))
}

/// A reply in the form of `HttpClient.complete`.
pub(crate) fn reply_dict(py: Python<'_>, reply: Reply) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item(intern!(py, "text"), reply.text)?;
    let calls = reply.tool_calls.into_iter().map(|call| call_dict(py, call)).collect::<PyResult<Vec<_>>>()?;
    dict.set_item(intern!(py, "tool_calls"), calls)?;
    dict.set_item(intern!(py, "finish_reason"), reply.finish_reason)?;
    dict.set_item(intern!(py, "usage"), reply.usage.map(|usage| usage_dict(py, usage)).transpose()?)?;
    dict.set_item(intern!(py, "reasoning"), reply.reasoning)?;
    dict.set_item(intern!(py, "model"), reply.model)?;
    dict.set_item(intern!(py, "metrics"), reply.metrics.map(|metrics| python_value(py, metrics)).transpose()?)?;
    dict.set_item(intern!(py, "degraded"), reply.degraded)?;
    Ok(dict)
}

fn call_dict(py: Python<'_>, call: ReplyCall) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item(intern!(py, "id"), call.id)?;
    dict.set_item(intern!(py, "name"), call.name)?;
    let arguments = match call.arguments {
        CallArguments::Absent => None,
        CallArguments::Text(text) => Some(text),
        CallArguments::Value(value) => Some(value.to_string()),
    };
    dict.set_item(intern!(py, "arguments"), arguments)?;
    Ok(dict)
}

/// The counts the provider reported.
fn usage_dict(py: Python<'_>, usage: Usage) -> PyResult<Bound<'_, PyDict>> {
    let dict = PyDict::new(py);
    for (name, count) in [
        (intern!(py, "prompt_tokens"), usage.prompt_tokens),
        (intern!(py, "completion_tokens"), usage.completion_tokens),
        (intern!(py, "total_tokens"), usage.total_tokens),
        (intern!(py, "reasoning_tokens"), usage.reasoning_tokens),
        (intern!(py, "cached_tokens"), usage.cached_tokens),
    ] {
        if let Some(count) = count {
            dict.set_item(name, count)?;
        }
    }
    Ok(dict)
}

/// The Python form of a JSON value.
fn python_value(py: Python<'_>, value: Value) -> PyResult<Bound<'_, PyAny>> {
    Ok(match value {
        Value::Null => py.None().into_bound(py),
        Value::Bool(value) => value.into_pyobject(py)?.to_owned().into_any(),
        Value::Number(number) => match (number.as_u64(), number.as_i64()) {
            (Some(number), _) => number.into_pyobject(py)?.into_any(),
            (None, Some(number)) => number.into_pyobject(py)?.into_any(),
            (None, None) => number.as_f64().into_pyobject(py)?.into_any(),
        },
        Value::String(text) => text.into_pyobject(py)?.into_any(),
        Value::Array(values) => {
            let list = PyList::empty(py);
            for value in values {
                list.append(python_value(py, value)?)?;
            }
            list.into_any()
        }
        Value::Object(members) => {
            let dict = PyDict::new(py);
            for (name, value) in members {
                dict.set_item(name, python_value(py, value)?)?;
            }
            dict.into_any()
        }
    })
}
