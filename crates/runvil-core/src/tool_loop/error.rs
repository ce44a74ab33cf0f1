//! Why a loop call failed.

use std::fmt;

use crate::error::ListError;
use crate::failure::ModelFailure;
use crate::judge::EmptyReply;
use crate::precheck::{ContextOverflow, exhausted_message};
use crate::quote::quote;

/// A failure that the loop itself decides on. What a compactor or a tool's handler raises is the driver's to pass on.
#[derive(Debug, Clone, PartialEq)]
pub enum LoopError {
    /// The list breaks a rule, or holds nothing.
    Rule(ListError),
    /// The model call failed, or its reply was malformed.
    Model(ModelFailure),
    /// The list does not fit the context window.
    ContextExhausted(ContextOverflow),
    /// A round came back with neither text nor tool calls.
    EmptyReply(EmptyReply),
    /// The rounds are used up.
    Exhausted,
    /// The model called a tool it was not offered.
    OutOfScope {
        /// The name it called.
        name: String,
        /// The names it was offered.
        scope: Vec<String>,
    },
    /// A call was given up.
    Cancelled,
}

impl LoopError {
    /// Which of the kinds of an error value it is.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Rule(_) => "lua",
            Self::Model(_) => "internal",
            Self::ContextExhausted(_) => "context_exhausted",
            Self::EmptyReply(_) => "empty_model_reply",
            Self::Exhausted => "tool_loop_exhausted",
            Self::OutOfScope { .. } => "out_of_scope_tool",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The message of a call of a tool that is not in scope.
pub fn out_of_scope_message(name: &str, scope: &[String]) -> String {
    let scope: Vec<String> = scope.iter().map(|name| quote(name)).collect();
    format!("tool {} is not in this section's scope; in-scope tools: [{}]", quote(name), scope.join(", "))
}

impl fmt::Display for LoopError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(error) => error.fmt(f),
            Self::Model(failure) => failure.fmt(f),
            Self::ContextExhausted(overflow) => f.write_str(&exhausted_message(overflow.reason.as_str())),
            Self::EmptyReply(empty) => f.write_str(empty.message),
            Self::Exhausted => f.write_str("tool-call loop did not converge"),
            Self::OutOfScope { name, scope } => f.write_str(&out_of_scope_message(name, scope)),
            Self::Cancelled => f.write_str("interrupted by Ctrl-C"),
        }
    }
}

impl std::error::Error for LoopError {}
