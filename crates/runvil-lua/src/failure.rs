//! What a call of the language can raise: the closed set of failures behind a Lua error value.

use std::fmt;

use runvil_core::failure::ModelFailure;
use runvil_core::precheck::ContextOverflow;
use runvil_core::tool_loop::{LoopError, out_of_scope_message};

/// Which of the two quotas of `log` was spent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogQuota {
    /// The number of calls.
    Events,
    /// The bytes of the messages, in UTF-8.
    Bytes,
}

/// A failure that Lua code can catch, or that ends its block when it does not.
///
/// [`Failure::kind`] is one of the twelve kinds of an error value, [`Failure::message`] the text `tostring(err)` gives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failure {
    /// A broken rule of the language or of an argument.
    Lua(String),
    /// A `log` call over its quota.
    LogQuota(LogQuota),
    /// The Lua heap, together with what the section's records hold, reached its ceiling.
    Memory,
    /// A model call failed.
    Model(ModelFailure),
    /// A round found no model to run on.
    ModelBinding {
        /// The section's heading text.
        section: String,
    },
    /// The host's input source failed.
    Input(String),
    /// The application's estimator failed.
    Estimator(String),
    /// A broken promise of the engine itself.
    Internal(String),
    /// The run is being cancelled, or a wait was abandoned.
    Cancelled,
    /// A conversation does not fit the model's context window.
    ContextExhausted {
        /// `precheck`, `provider`, or the text given to `compactors.fail`.
        reason: String,
        /// The tokens of the request, when a provider refused it and counted them.
        used: Option<u64>,
        /// The most tokens that fit, when a provider refused the request and said so.
        limit: Option<u64>,
    },
    /// A round came back with neither text nor tool calls.
    EmptyReply {
        /// The phrase that says so.
        message: String,
        /// The provider's finish reason, when it gave one.
        finish_reason: Option<String>,
    },
    /// A loop used up its rounds.
    ToolLoopExhausted,
    /// The model called a tool outside the section's scope.
    OutOfScopeTool {
        /// The name the model used.
        name: String,
        /// The names in scope.
        scope: Vec<String>,
    },
    /// A script called a tool that no active pack has.
    UnboundTool {
        /// The name the script used.
        name: String,
        /// The paths of the tools there are.
        bound: Vec<String>,
    },
    /// The schema of an offered tool could not be built.
    ToolSchema {
        /// The tool's path.
        path: String,
    },
    /// A tool call failed.
    Tool(String),
}

impl From<LoopError> for Failure {
    fn from(error: LoopError) -> Self {
        match error {
            LoopError::Rule(error) => Self::Lua(error.to_string()),
            LoopError::Model(failure) => Self::Model(failure),
            LoopError::ContextExhausted(overflow) => Self::exhausted(overflow),
            LoopError::EmptyReply(empty) => {
                Self::EmptyReply { message: empty.message.to_owned(), finish_reason: empty.finish_reason }
            }
            LoopError::Exhausted => Self::ToolLoopExhausted,
            LoopError::OutOfScope { name, scope } => Self::OutOfScopeTool { name, scope },
            LoopError::Cancelled => Self::Cancelled,
        }
    }
}

impl Failure {
    /// The failure of a request that does not fit the context window.
    pub fn exhausted(overflow: ContextOverflow) -> Self {
        let ContextOverflow { reason, used, limit } = overflow;
        Self::ContextExhausted { reason: reason.as_str().to_owned(), used, limit }
    }

    /// The kind, as `err.kind` reads it.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Lua(_) | Self::LogQuota(_) | Self::Memory => "lua",
            Self::Model(_)
            | Self::ModelBinding { .. }
            | Self::Input(_)
            | Self::Estimator(_)
            | Self::Internal(_)
            | Self::ToolSchema { .. } => "internal",
            Self::Cancelled => "cancelled",
            Self::ContextExhausted { .. } => "context_exhausted",
            Self::EmptyReply { .. } => "empty_model_reply",
            Self::ToolLoopExhausted => "tool_loop_exhausted",
            Self::OutOfScopeTool { .. } => "out_of_scope_tool",
            Self::UnboundTool { .. } => "unbound_tool",
            Self::Tool(_) => "tool",
        }
    }

    /// The message, as `tostring(err)` gives it.
    pub fn message(&self) -> String {
        match self {
            Self::Lua(text) => text.clone(),
            Self::LogQuota(LogQuota::Events) => "lua log event budget exceeded".to_owned(),
            Self::LogQuota(LogQuota::Bytes) => "lua log cumulative byte budget exceeded".to_owned(),
            Self::Memory => "not enough memory".to_owned(),
            Self::Model(failure) => failure.message(),
            Self::ModelBinding { section } => format!("model binding required for section {section}"),
            Self::Input(message) => format!("user input request was not answered: {message}"),
            Self::Estimator(message) => format!("the request could not be counted: {message}"),
            Self::Internal(message) => format!("internal invariant violated: {message}"),
            Self::Cancelled => "interrupted by Ctrl-C".to_owned(),
            Self::ContextExhausted { reason, .. } => format!("context exhausted: {}", context_detail(reason)),
            Self::EmptyReply { message, .. } => message.clone(),
            Self::ToolLoopExhausted => "tool-call loop did not converge".to_owned(),
            Self::OutOfScopeTool { name, scope } => out_of_scope_message(name, scope),
            Self::UnboundTool { name, bound } => {
                let bound: Vec<String> = bound.iter().map(|path| quoted(path)).collect();
                format!("tool {} is not bound in this run; bound tools: [{}]", quoted(name), bound.join(", "))
            }
            Self::ToolSchema { path } => format!("model-facing schema build failure for tool {}", quoted(path)),
            Self::Tool(message) => format!("tool call failure: {message}"),
        }
    }

    /// The field besides `kind` and `message` that an error value of this failure holds: its name and text.
    pub fn field(&self) -> Option<(&'static str, &str)> {
        match self {
            Self::ContextExhausted { reason, .. } => Some(("reason", reason)),
            Self::EmptyReply { finish_reason: Some(reason), .. } => Some(("finish_reason", reason)),
            Self::OutOfScopeTool { name, .. } | Self::UnboundTool { name, .. } => Some(("name", name)),
            _ => None,
        }
    }
}

/// The words of `context exhausted: {detail}`: the two overflow reasons in words, any other text as it is.
pub fn context_detail(reason: &str) -> &str {
    match reason {
        "precheck" => "the request precheck overflowed the model's context window",
        "provider" => "the provider rejected the request as exceeding the model's context window",
        other => other,
    }
}

/// A name in double quotes, escaped as every message of the language escapes it.
pub fn quoted(name: &str) -> String {
    runvil_core::quote::quote(name)
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

impl std::error::Error for Failure {}
