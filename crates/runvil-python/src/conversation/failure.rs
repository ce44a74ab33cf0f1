//! Refused edits and broken lists as `runvil.ConversationError`.

use pyo3::PyErr;
use runvil_core::error::ListError;
use runvil_core::json::JsonLoadError;

/// The module whose classes Rust raises.
mod raised {
    pyo3::import_exception!(runvil.errors, ConversationError);
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
