//! Work a run asks for, and the answers to it.

use runvil_core::failure::ModelFailure;
use runvil_core::reply::{CallArguments, Reply};
use runvil_core::request::Request;
use serde_json::{Map, Value};

/// Names one effect of a run; counted from 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EffectId(pub u64);

/// What a round's reply is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Origin {
    /// A round of a loop; its text can be shown while it arrives.
    Chat,
    /// A round of `models.infer`.
    Infer,
}

impl Origin {
    /// The origin as events and logs spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Chat => "chat",
            Self::Infer => "infer",
        }
    }
}

/// A model request that is ready to leave.
#[derive(Debug, Clone)]
pub struct Round {
    /// Counts the run's requests from 0.
    pub round: u64,
    /// What the reply is for.
    pub origin: Origin,
    /// The section's heading text.
    pub section: String,
    /// The conversation it belongs to: the section entry's id. An infer has a conversation of its own.
    pub conversation: Option<String>,
    /// The catalog's name of the model, or a raw id.
    pub model: String,
    /// The provider's name of the model.
    pub model_id: String,
    /// The role, when one was selected.
    pub role: Option<String>,
    /// The label of the handle the call named, when it named one.
    pub handle: Option<String>,
    /// The messages, frozen.
    pub request: Request,
    /// The names of the tools offered.
    pub tools: Vec<String>,
    /// `temperature`, `max_tokens` and `thinking`, each only when it is set.
    pub options: Map<String, Value>,
    /// The plain estimate, in tokens.
    pub estimate: u64,
    /// The count the precheck used, in tokens.
    pub count: u64,
    /// The room kept for the reply, in tokens.
    pub reserve: u64,
    /// The model's context window, in tokens.
    pub window: u64,
}

/// Work for the Harness. Closed on purpose: a new kind of work must break every driver's build.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Send a model request.
    Round(Box<Round>),
    /// Find the source of a library.
    LoadLibrary {
        /// The library's name.
        name: String,
    },
    /// Ask the operator.
    UserInput,
}

/// The answer to an effect. Every effect gets exactly one.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The model's reply.
    Reply(Box<Reply>),
    /// The model call failed.
    ModelFailure(ModelFailure),
    /// A library's source.
    Library {
        /// The source text.
        source: Vec<u8>,
    },
    /// There is no such library.
    LibraryMissing {
        /// Why, for the author.
        message: String,
    },
    /// The operator's text.
    UserInput {
        /// The text, byte for byte.
        text: String,
    },
    /// No operator can be asked.
    InputUnavailable,
    /// The input source failed.
    InputFailure {
        /// Why.
        message: String,
    },
    /// The work was given up.
    Dropped,
}

impl Answer {
    /// The answer's kind, for messages.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Reply(_) => "reply",
            Self::ModelFailure(_) => "model_failure",
            Self::Library { .. } => "library",
            Self::LibraryMissing { .. } => "library_missing",
            Self::UserInput { .. } => "user_input",
            Self::InputUnavailable => "input_unavailable",
            Self::InputFailure { .. } => "input_failure",
            Self::Dropped => "dropped",
        }
    }

    /// About how much the answer holds, in bytes.
    pub(crate) fn size(&self) -> usize {
        match self {
            Self::Reply(reply) => {
                let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
                let calls = reply.tool_calls.iter().map(|call| match &call.arguments {
                    CallArguments::Absent => 0,
                    CallArguments::Text(text) => text.len(),
                    CallArguments::Value(value) => value_size(value),
                });
                length(&reply.text) + length(&reply.reasoning) + calls.sum::<usize>()
            }
            Self::Library { source } => source.len(),
            Self::UserInput { text } => text.len(),
            Self::LibraryMissing { message } | Self::InputFailure { message } => message.len(),
            Self::ModelFailure(_) | Self::InputUnavailable | Self::Dropped => 0,
        }
    }
}

/// About how much a JSON value holds, in bytes.
fn value_size(value: &Value) -> usize {
    size_of::<Value>()
        + match value {
            Value::String(text) => text.len(),
            Value::Array(items) => items.iter().map(value_size).sum(),
            Value::Object(entries) => entries.iter().map(|(key, value)| key.len() + value_size(value)).sum(),
            Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        }
}
