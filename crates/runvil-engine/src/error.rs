//! Why a run failed.

use std::fmt;

use runvil_lua::failure::{Failure, LogQuota};
use runvil_lua::vm::BlockFailure;

/// The kind of a run error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RunErrorKind {
    /// The prompt is no prompt.
    Parse,
    /// The prompt is of a version this build does not run.
    Version,
    /// A round had no model to run on.
    Binding,
    /// A model call failed.
    Completion,
    /// A tool call or a tool loop failed.
    Tool,
    /// Lua failed.
    Lua,
    /// A quota was spent.
    Quota,
    /// A conversation outgrew its model's context window.
    ContextExhausted,
    /// The input source failed.
    Input,
    /// The Engine broke a promise of its own.
    Internal,
    /// The environment, or the H1 body's own checks, cannot satisfy the prompt.
    RequirementsUnmet,
}

impl RunErrorKind {
    /// The kind's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Parse => "Parse",
            Self::Version => "Version",
            Self::Binding => "Binding",
            Self::Completion => "Completion",
            Self::Tool => "Tool",
            Self::Lua => "Lua",
            Self::Quota => "Quota",
            Self::ContextExhausted => "ContextExhausted",
            Self::Input => "Input",
            Self::Internal => "Internal",
            Self::RequirementsUnmet => "RequirementsUnmet",
        }
    }
}

impl fmt::Display for RunErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A place in the prompt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Location {
    /// The prompt's name.
    pub path: String,
    /// The 1-based file line.
    pub line: usize,
    /// The 1-based byte column, where it is known.
    pub column: Option<usize>,
}

/// A failed run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunError {
    /// The kind.
    pub kind: RunErrorKind,
    /// What failed, with the place and traceback for a Lua error.
    pub message: String,
    /// For a context exhaustion its reason.
    pub reason: Option<String>,
    /// For an empty reply the provider's finish reason.
    pub finish_reason: Option<String>,
    /// For a tool outside the scope its name.
    pub name: Option<String>,
    /// For a prompt that is no prompt, which rule it breaks.
    pub parse_kind: Option<&'static str>,
    /// Where, when there is a place.
    pub location: Option<Location>,
    /// The provider's own words about a failed model call.
    pub detail: Option<String>,
    /// The HTTP status of a failed model call.
    pub status: Option<u16>,
    /// For a context exhaustion the tokens of the request, when the provider counted them.
    pub used: Option<u64>,
    /// For a context exhaustion the most tokens that fit, when the provider said so.
    pub limit: Option<u64>,
}

impl RunError {
    /// An error of this kind that has a message only.
    pub(crate) fn new(kind: RunErrorKind, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            reason: None,
            finish_reason: None,
            name: None,
            parse_kind: None,
            location: None,
            detail: None,
            status: None,
            used: None,
            limit: None,
        }
    }

    /// The run error of an error that left a block. `is_h1` turns what would be a Lua error into an unmet requirement.
    pub(crate) fn from_block(failure: &BlockFailure, is_h1: bool, path: &str) -> Self {
        let mut error = Self::from_failure(&failure.failure, &failure.message);
        if is_h1 && error.kind == RunErrorKind::Lua {
            error.kind = RunErrorKind::RequirementsUnmet;
        }
        error.location =
            failure.line.filter(|line| *line > 0).map(|line| Location { path: path.to_owned(), line, column: None });
        error
    }

    fn from_failure(failure: &Failure, message: &str) -> Self {
        let kind = match failure {
            Failure::Lua(_) | Failure::Memory => RunErrorKind::Lua,
            Failure::LogQuota(_) => RunErrorKind::Quota,
            Failure::Model(_) | Failure::Estimator(_) | Failure::EmptyReply { .. } => RunErrorKind::Completion,
            Failure::ModelBinding { .. } | Failure::ToolSchema { .. } => RunErrorKind::Binding,
            Failure::Input(_) => RunErrorKind::Input,
            Failure::Internal(_) | Failure::Cancelled => RunErrorKind::Internal,
            Failure::ContextExhausted { .. } => RunErrorKind::ContextExhausted,
            Failure::ToolLoopExhausted
            | Failure::OutOfScopeTool { .. }
            | Failure::UnboundTool { .. }
            | Failure::Tool(_) => RunErrorKind::Tool,
        };
        let mut error = Self::new(kind, message);
        match failure {
            Failure::LogQuota(LogQuota::Events) => "lua log event quota exceeded".clone_into(&mut error.message),
            Failure::LogQuota(LogQuota::Bytes) => "lua log byte quota exceeded".clone_into(&mut error.message),
            Failure::Model(failure) => {
                error.status = failure.status;
                error.detail.clone_from(&failure.detail);
            }
            Failure::EmptyReply { finish_reason, .. } => error.finish_reason.clone_from(finish_reason),
            Failure::ContextExhausted { reason, used, limit } => {
                error.reason = Some(reason.clone());
                (error.used, error.limit) = (*used, *limit);
            }
            Failure::OutOfScopeTool { name, .. } | Failure::UnboundTool { name, .. } => error.name = Some(name.clone()),
            _ => {}
        }
        error
    }
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.kind, self.message)
    }
}

impl std::error::Error for RunError {}
