//! The answers of a driver, read from `(kind, data)` tuples.

use pyo3::conversion::FromPyObjectOwned;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;
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
    let mut tool_calls = Vec::new();
    for call in optional::<Vec<Bound<'_, PyDict>>>(dict, "tool_calls")?.unwrap_or_default() {
        let arguments = match call.get_item("arguments")? {
            Some(value) if !value.is_none() => match value.extract::<String>() {
                Ok(text) => CallArguments::Text(text),
                Err(_) => CallArguments::Value(from_python(&value, "the arguments of a tool call")?),
            },
            _ => CallArguments::Absent,
        };
        tool_calls.push(ReplyCall {
            id: optional(&call, "id")?.unwrap_or_default(),
            name: optional(&call, "name")?.unwrap_or_default(),
            arguments,
        });
    }
    let usage = match optional::<Bound<'_, PyDict>>(dict, "usage")? {
        Some(counts) => Some(Usage {
            prompt_tokens: optional(&counts, "prompt_tokens")?,
            completion_tokens: optional(&counts, "completion_tokens")?,
            total_tokens: optional(&counts, "total_tokens")?,
            reasoning_tokens: optional(&counts, "reasoning_tokens")?,
            cached_tokens: optional(&counts, "cached_tokens")?,
        }),
        None => None,
    };
    let metrics = match dict.get_item("metrics")? {
        Some(value) if !value.is_none() => Some(from_python(&value, "the metrics of a reply")?),
        _ => None,
    };
    let is_host_built = optional::<bool>(dict, "host_built")?.unwrap_or(false);
    Ok(Reply {
        text: optional(dict, "text")?,
        tool_calls,
        finish_reason: optional(dict, "finish_reason")?,
        usage,
        reasoning: optional(dict, "reasoning")?,
        model: optional(dict, "model")?,
        metrics,
        degraded: optional(dict, "degraded")?.unwrap_or_default(),
        source: if is_host_built { ReplySource::Host } else { ReplySource::Backend },
    })
}
