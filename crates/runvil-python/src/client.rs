//! `HttpClient`: the model client, for Python's event loop.
//!
//! A call runs on the tokio runtime. Everything that touches Python objects of the caller runs on the loop's thread: the
//! call puts fragments and its result into one queue, and asks the loop to empty it. So fragments arrive in order, the
//! last one before the result, and any number of them costs one wake-up while the loop is busy.

use std::collections::VecDeque;
use std::process;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyList, PyMapping};
use pyo3::{intern, pyclass, pyfunction, pymethods};
use runvil_client::{Bytes, Client, ClientOptions, Secret};
use runvil_core::failure::{self, ModelFailure};
use runvil_core::reply::{CallArguments, Reply, ReplyCall, Usage};
use serde_json::Value;
use tokio::sync::Notify;

/// The kind of a failed provider answer, by its HTTP status and its body.
///
/// `streamed=True`, or no status, is an error inside a started stream: its body alone decides.
#[pyfunction]
#[pyo3(signature = (status, body, streamed=false))]
pub(crate) fn classify(status: Option<i64>, body: &str, streamed: bool) -> PyResult<&'static str> {
    let status = match status {
        None => None,
        Some(status) => match u16::try_from(status) {
            Ok(status @ 100..=999) => Some(status),
            _ => return Err(PyValueError::new_err(format!("status must be an HTTP status such as 400, got {status}"))),
        },
    };
    Ok(failure::classify(status.filter(|_| !streamed), body).kind.name())
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
    /// limits the size of an answer.
    #[new]
    #[pyo3(signature = (base_url, api_key=None, headers=None, timeout=120.0, connect_timeout=10.0, retries=2, max_response_bytes=16_777_216))]
    fn new(
        base_url: String,
        api_key: Option<String>,
        headers: Option<Bound<'_, PyMapping>>,
        timeout: f64,
        connect_timeout: f64,
        retries: i64,
        max_response_bytes: i64,
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
        let client = Client::new(options).map_err(|error| PyValueError::new_err(error.to_string()))?;
        Ok(Self { client })
    }

    /// Sends one request, whose JSON `body` is ready, and returns an awaitable for the reply: a dict with the keys `text`,
    /// `tool_calls` (a list of dicts `id`, `name`, `arguments`: the provider's JSON text or None), `finish_reason`,
    /// `usage` (a dict of the reported counts, or None), `reasoning`, `model`, `metrics` and `degraded`.
    ///
    /// `on_fragment(text)` is called on the loop's thread with each piece of visible text, in order, all of them before the
    /// awaitable is done. An exception from it ends the call and is raised. A failed call raises
    /// `runvil.errors.ModelError`. Cancelling closes the connection at once.
    ///
    /// Bytes are sent without a copy; any other bytes-like object is copied.
    #[pyo3(signature = (body, on_fragment=None))]
    fn complete<'py>(
        &self,
        py: Python<'py>,
        body: &Bound<'py, PyAny>,
        on_fragment: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        self.start(py, request_bytes(body)?, on_fragment)
    }

    fn __repr__(&self) -> String {
        format!("HttpClient({:?})", self.client.display_url())
    }
}

impl HttpClient {
    /// Sends one request whose body is in memory that Rust shares; see `complete`.
    pub(crate) fn start<'py>(
        &self,
        py: Python<'py>,
        body: Bytes,
        on_fragment: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        guard_against_fork()?;
        let event_loop = running_loop(py)?;
        let future = event_loop.call_method0(intern!(py, "create_future"))?;
        let call = Arc::new(Call {
            event_loop: event_loop.unbind(),
            context: py.import(intern!(py, "contextvars"))?.call_method0(intern!(py, "copy_context"))?.unbind(),
            future: future.clone().unbind(),
            on_fragment,
            queue: Mutex::default(),
            cancelled: Notify::new(),
        });
        future.call_method1(intern!(py, "add_done_callback"), (Cancel(call.clone()),))?;
        let client = self.client.clone();
        pyo3_async_runtimes::tokio::get_runtime().spawn(async move {
            let mut ending = Ending { call: &call, outcome: None };
            tokio::select! {
                biased;
                () = call.cancelled.notified() => {}
                result = client.complete(body, None, |text| call.send_fragment(text)) => {
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

/// A call that is running, as the loop sees it.
struct Call {
    event_loop: Py<PyAny>,
    /// The context variables of the caller, for its callback.
    context: Py<PyAny>,
    /// What the caller waits for.
    future: Py<PyAny>,
    on_fragment: Option<Py<PyAny>>,
    queue: Mutex<Queue>,
    /// Told when nobody waits any more.
    cancelled: Notify,
}

/// What waits for the loop.
#[derive(Default)]
struct Queue {
    items: VecDeque<Item>,
    /// Whether the loop has been asked to empty the queue.
    asked: bool,
}

enum Item {
    Fragment(String),
    Outcome(Box<Result<Reply, ModelFailure>>),
    /// The task ended without an outcome.
    Lost,
}

impl Call {
    fn send_fragment(self: &Arc<Self>, text: &str) {
        if self.on_fragment.is_some() {
            self.send(Item::Fragment(text.to_owned()));
        }
    }

    /// Queues an item and wakes the loop unless that was done already.
    fn send(self: &Arc<Self>, item: Item) {
        {
            let mut queue = self.queue();
            queue.items.push_back(item);
            if std::mem::replace(&mut queue.asked, true) {
                return;
            }
        }
        let asked = Python::try_attach(|py| {
            let kwargs = PyDict::new(py);
            kwargs.set_item(intern!(py, "context"), &self.context)?;
            let callback = (Deliver(self.clone()),);
            self.event_loop.bind(py).call_method(intern!(py, "call_soon_threadsafe"), callback, Some(&kwargs))?;
            PyResult::Ok(())
        });
        // The loop is closed, or the interpreter is: nobody can wait for this call.
        if !matches!(asked, Some(Ok(()))) {
            self.cancelled.notify_one();
        }
    }

    /// The queue. It is never locked while the interpreter is waited for.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Hands one item to the caller. Runs on the loop's thread.
    fn deliver(&self, py: Python<'_>, item: Item) -> PyResult<()> {
        let future = self.future.bind(py);
        if future.call_method0(intern!(py, "done"))?.is_truthy()? {
            return Ok(());
        }
        let Err(error) = self.pass_on(py, item) else { return Ok(()) };
        let set_exception = intern!(py, "set_exception");
        if let Err(refused) = future.call_method1(set_exception, (error,)) {
            // A future takes no StopIteration.
            future.call_method1(set_exception, (refused,))?;
        }
        Ok(())
    }

    /// Calls the callback or sets the result. An error is what the caller shall see raised.
    fn pass_on(&self, py: Python<'_>, item: Item) -> PyResult<()> {
        match item {
            Item::Fragment(text) => {
                if let Some(callback) = &self.on_fragment {
                    callback.call1(py, (text,))?;
                }
                Ok(())
            }
            Item::Outcome(outcome) => {
                let reply = outcome.map_err(|failure| model_error(py, failure).unwrap_or_else(|error| error))?;
                self.future.call_method1(py, intern!(py, "set_result"), (reply_dict(py, reply)?,))?;
                Ok(())
            }
            Item::Lost => Err(PyRuntimeError::new_err("the model call ended without a result")),
        }
    }
}

/// Sends the outcome of a task when it ends, even by a panic.
struct Ending<'a> {
    call: &'a Arc<Call>,
    outcome: Option<Result<Reply, ModelFailure>>,
}

impl Drop for Ending<'_> {
    fn drop(&mut self) {
        self.call.send(self.outcome.take().map_or(Item::Lost, |outcome| Item::Outcome(Box::new(outcome))));
    }
}

/// Empties the queue of a call; the loop calls it.
#[pyclass(frozen)]
struct Deliver(Arc<Call>);

#[pymethods]
impl Deliver {
    fn __call__(&self, py: Python<'_>) -> PyResult<()> {
        loop {
            let item = {
                let mut queue = self.0.queue();
                let item = queue.items.pop_front();
                queue.asked = item.is_some();
                item
            };
            match item {
                Some(item) => self.0.deliver(py, item)?,
                None => return Ok(()),
            }
        }
    }
}

/// Ends the task of a call whose future is done; the loop calls it.
#[pyclass(frozen)]
struct Cancel(Arc<Call>);

#[pymethods]
impl Cancel {
    fn __call__(&self, _future: &Bound<'_, PyAny>) {
        self.0.cancelled.notify_one();
    }
}

/// The Python exception for a failed call.
fn model_error(py: Python<'_>, failure: ModelFailure) -> PyResult<PyErr> {
    static CLASS: PyOnceLock<Py<PyAny>> = PyOnceLock::new();
    let fields = PyDict::new(py);
    fields.set_item(intern!(py, "kind"), failure.kind.name())?;
    fields.set_item(intern!(py, "status"), failure.status)?;
    fields.set_item(intern!(py, "detail"), failure.detail)?;
    fields.set_item(intern!(py, "note"), failure.note)?;
    Ok(PyErr::from_value(CLASS.import(py, "runvil.errors", "ModelError")?.call((), Some(&fields))?))
}

fn reply_dict(py: Python<'_>, reply: Reply) -> PyResult<Bound<'_, PyDict>> {
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
