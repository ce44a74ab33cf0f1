//! The answers of a driver, read from `(kind, data)` tuples.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyString};
use runvil_core::failure::ModelFailure;
use runvil_core::reply::{CallArguments, Reply, ReplyCall, ReplySource, Usage};
use runvil_engine::effect::{Answer, RenderedTool};

use crate::convert::{self, from_python};
use crate::outcome::failure_kind;

/// Reads one answer.
pub(crate) fn read(kind: &str, data: &Bound<'_, PyAny>) -> PyResult<Answer> {
    let dict = || data.cast::<PyDict>().map_err(|_| PyTypeError::new_err(format!("a {kind} answer takes a dict")));
    Ok(match kind {
        "reply" => Answer::Reply(Box::new(reply(dict()?)?)),
        "model_failure" => {
            let dict = dict()?;
            Answer::ModelFailure(ModelFailure {
                kind: failure_kind(&text(dict, "kind")?)?,
                status: optional(dict, "status")?,
                note: optional(dict, "note")?,
                detail: optional(dict, "detail")?,
                used: optional(dict, "used")?,
                limit: optional(dict, "limit")?,
            })
        }
        "counted" => Answer::Counted { tokens: convert::required(dict()?, "tokens", WHAT)? },
        "count_failure" => Answer::CountFailure { message: text(dict()?, "message")? },
        "rendered" => {
            let tools = convert::required::<Vec<Bound<'_, PyAny>>>(dict()?, "tools", WHAT)?;
            Answer::Rendered { tools: tools.iter().map(rendered_tool).collect::<PyResult<_>>()? }
        }
        "render_failure" => Answer::RenderFailure { path: text(dict()?, "path")? },
        "tool_output" => Answer::ToolOutput { text: text(dict()?, "text")? },
        "tool_failure" => Answer::ToolFailure { message: text(dict()?, "message")? },
        "library" => Answer::Library { source: convert::required(dict()?, "source", WHAT)? },
        "library_missing" => Answer::LibraryMissing { message: text(dict()?, "message")? },
        "user_input" => Answer::UserInput { text: text(dict()?, "text")? },
        "input_unavailable" => Answer::InputUnavailable,
        "input_failure" => Answer::InputFailure { message: text(dict()?, "message")? },
        "dropped" => Answer::Dropped,
        other => return Err(PyValueError::new_err(format!("{other:?} is no kind of answer"))),
    })
}

const WHAT: &str = "an answer";

/// Checks what a broker answered, so that the answer that holds it can be read.
///
/// # Errors
///
/// A part has the wrong type or no JSON form, or a text has half of a surrogate pair; the message says which part.
#[pyfunction]
pub(crate) fn check_reply(answer: &Bound<'_, PyDict>) -> PyResult<()> {
    reply(answer).map(drop)
}

/// Checks that a value is JSON data; `what` names it in a refusal.
///
/// # Errors
///
/// It holds a value or a text that JSON cannot.
#[pyfunction]
pub(crate) fn check_json(value: &Bound<'_, PyAny>, what: &str) -> PyResult<()> {
    from_python(value, what).map(drop)
}

/// Checks what a pack says of one tool, so that the answer that holds it can be read.
///
/// # Errors
///
/// It is no dict of a description and of parameters that JSON can express.
#[pyfunction]
pub(crate) fn check_rendered_tool(tool: &Bound<'_, PyAny>) -> PyResult<()> {
    rendered_tool(tool).map(drop)
}

fn rendered_tool(tool: &Bound<'_, PyAny>) -> PyResult<RenderedTool> {
    const WHAT: &str = "a rendered tool";
    let tool = tool.cast::<PyDict>().map_err(|_| PyTypeError::new_err("a rendered tool must be a dict"))?;
    let parameters: Bound<'_, PyAny> = convert::required(tool, "parameters", WHAT)?;
    Ok(RenderedTool {
        description: convert::optional(tool, "description", WHAT)?.unwrap_or_default(),
        parameters: from_python(&parameters, "the parameters of a tool")?,
    })
}

fn optional<'py, T: FromPyObjectOwned<'py>>(dict: &Bound<'py, PyDict>, key: &str) -> PyResult<Option<T>> {
    convert::optional(dict, key, WHAT)
}

fn text(dict: &Bound<'_, PyDict>, key: &str) -> PyResult<String> {
    convert::required(dict, key, WHAT)
}

fn reply(dict: &Bound<'_, PyDict>) -> PyResult<Reply> {
    const WHAT: &str = "the reply";
    let mut tool_calls = Vec::new();
    let calls: Option<Vec<Bound<'_, PyDict>>> = convert::optional(dict, "tool_calls", WHAT)?;
    for (call, number) in calls.unwrap_or_default().iter().zip(1..) {
        tool_calls.push(reply_call(call, number)?);
    }
    let usage = match convert::optional::<Bound<'_, PyDict>>(dict, "usage", WHAT)? {
        Some(counts) => Some(Usage {
            prompt_tokens: convert::optional(&counts, "prompt_tokens", "the reply's usage")?,
            completion_tokens: convert::optional(&counts, "completion_tokens", "the reply's usage")?,
            total_tokens: convert::optional(&counts, "total_tokens", "the reply's usage")?,
            reasoning_tokens: convert::optional(&counts, "reasoning_tokens", "the reply's usage")?,
            cached_tokens: convert::optional(&counts, "cached_tokens", "the reply's usage")?,
        }),
        None => None,
    };
    let metrics = match dict.get_item("metrics")? {
        Some(value) if !value.is_none() => Some(from_python(&value, "metrics of the reply")?),
        _ => None,
    };
    let is_host_built = convert::optional::<bool>(dict, "host_built", WHAT)?.unwrap_or(false);
    Ok(Reply {
        text: convert::optional(dict, "text", WHAT)?,
        tool_calls,
        finish_reason: convert::optional(dict, "finish_reason", WHAT)?,
        usage,
        reasoning: convert::optional(dict, "reasoning", WHAT)?,
        model: convert::optional(dict, "model", WHAT)?,
        metrics,
        degraded: convert::optional(dict, "degraded", WHAT)?.unwrap_or_default(),
        source: if is_host_built { ReplySource::Host } else { ReplySource::Backend },
    })
}

fn reply_call(call: &Bound<'_, PyDict>, number: usize) -> PyResult<ReplyCall> {
    let what = format!("tool call {number} of the reply");
    let arguments = match call.get_item("arguments")?.filter(|value| !value.is_none()) {
        None => CallArguments::Absent,
        Some(value) if value.is_instance_of::<PyString>() => {
            CallArguments::Text(convert::required(call, "arguments", &what)?)
        }
        Some(value) => CallArguments::Value(from_python(&value, &format!("arguments of {what}"))?),
    };
    Ok(ReplyCall {
        id: convert::optional(call, "id", &what)?.unwrap_or_default(),
        name: convert::optional(call, "name", &what)?.unwrap_or_default(),
        arguments,
    })
}
