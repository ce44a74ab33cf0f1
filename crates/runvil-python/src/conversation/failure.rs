//! Refused edits and broken lists as `runvil.ConversationError`.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use runvil_core::error::ListError;
use runvil_core::json::JsonLoadError;
use runvil_core::tool_loop::LoopError;

/// The module whose classes Rust raises.
mod raised {
    pyo3::import_exception!(runvil.errors, ConversationError);
    pyo3::import_exception!(runvil.errors, LoopError);
}

/// An error with one of the codes that only the Python API has.
pub(super) fn error(code: &'static str, message: impl Into<String>) -> PyErr {
    raised::ConversationError::new_err((message.into(), code))
}

/// A refused edit, a broken list or an empty one.
#[allow(clippy::needless_pass_by_value)] // for `map_err`
pub(super) fn refused(error: ListError) -> PyErr {
    let message = error.to_string();
    raised::ConversationError::new_err((message, error.code.as_str(), error.position, error.part, error.call))
}

/// A loop that starts while another loop or a compaction runs.
pub(super) fn loop_running() -> PyErr {
    let message = "a loop or a compactor is already running in this section; ask a side question with \
                   models.infer(prompt)";
    raised::LoopError::new_err(("lua", message))
}

/// The exception of a failed loop.
pub(super) fn loop_error<'py>(py: Python<'py>, error: &LoopError) -> PyResult<Bound<'py, PyAny>> {
    let fields = PyDict::new(py);
    let mut cause = None;
    match error {
        LoopError::Rule(error) => cause = Some(refused(error.clone())),
        LoopError::Model(failure) => {
            fields.set_item("status", failure.status)?;
            fields.set_item("detail", failure.detail.as_deref())?;
        }
        LoopError::ContextExhausted(overflow) => {
            fields.set_item("reason", overflow.reason.as_str())?;
            fields.set_item("used", overflow.used)?;
            fields.set_item("limit", overflow.limit)?;
        }
        LoopError::EmptyReply(empty) => fields.set_item("finish_reason", empty.finish_reason.as_deref())?,
        LoopError::OutOfScope { name, .. } => fields.set_item("name", name)?,
        LoopError::Exhausted | LoopError::Cancelled => {}
    }
    let class = py.get_type::<raised::LoopError>();
    let raised = class.call((error.kind(), error.to_string()), Some(&fields))?;
    if let Some(cause) = cause {
        raised.setattr("__cause__", cause.value(py))?;
    }
    Ok(raised)
}

/// JSON text that is no conversation.
pub(super) fn unreadable(problem: JsonLoadError) -> PyErr {
    let code = match problem {
        JsonLoadError::Record(problem) => return refused(problem),
        JsonLoadError::NotUtf8 { .. } => "not_utf8",
        JsonLoadError::Syntax { .. } => "invalid_json",
        JsonLoadError::NotArray => "not_array",
    };
    error(code, problem.to_string())
}

/// An edit from outside the compactor that runs.
pub(super) fn compaction_running() -> PyErr {
    error("compaction_running", "a compaction of this conversation is running; only its compactor may edit the records")
}
