//! Work a run asks for, and the answers to it.

use runvil_core::failure::ModelFailure;
use runvil_core::reply::{CallArguments, Reply};
use runvil_core::request::Request;
use runvil_core::tools::ToolList;
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
    /// The tools offered.
    pub tools: ToolList,
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
    /// The estimator's name, when it is not the specified one.
    pub estimator: Option<String>,
}

/// A request to be counted by an estimator of the application's.
#[derive(Debug, Clone)]
pub struct Count {
    /// The catalog's name of the model.
    pub model: String,
    /// The role, when one was selected.
    pub role: Option<String>,
    /// The conversation it belongs to; an infer has a conversation of its own.
    pub conversation: Option<String>,
    /// The messages, frozen.
    pub request: Request,
    /// The tools it offers.
    pub tools: ToolList,
}

/// Who calls a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// `tools.call`.
    Script,
    /// A model, in a tool round.
    Model,
}

impl Caller {
    /// The caller as logs spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Script => "script",
            Self::Model => "model",
        }
    }
}

/// A call of a pack's tool.
#[derive(Debug, Clone, PartialEq)]
pub struct PackCall {
    /// The tool's path, `pack/tool`.
    pub path: String,
    /// The arguments, in the caller's key order.
    pub arguments: Map<String, Value>,
    /// Who calls.
    pub caller: Caller,
    /// The model's id of the call; empty for a script.
    pub call_id: String,
    /// The section's heading text.
    pub section: String,
}

/// Work for the Harness. Closed on purpose: a new kind of work must break every driver's build.
#[derive(Debug, Clone)]
pub enum Effect {
    /// Send a model request.
    Round(Box<Round>),
    /// Count a request's tokens before its precheck.
    CountTokens(Box<Count>),
    /// Render the schemas of tools, in this order.
    RenderPacks {
        /// The tools' paths.
        tools: Vec<String>,
    },
    /// Call a pack's tool.
    ToolCall(Box<PackCall>),
    /// Find the source of a library.
    LoadLibrary {
        /// The library's name.
        name: String,
    },
    /// Ask the operator.
    UserInput,
}

/// What a model reads about one tool.
#[derive(Debug, Clone, PartialEq)]
pub struct RenderedTool {
    /// The pack's own description; may be empty.
    pub description: String,
    /// The JSON Schema of the arguments. Anything but an object fails the round.
    pub parameters: Value,
}

/// The answer to an effect. Every effect gets exactly one.
#[derive(Debug, Clone)]
pub enum Answer {
    /// The model's reply.
    Reply(Box<Reply>),
    /// The model call failed.
    ModelFailure(ModelFailure),
    /// The tokens of the request.
    Counted {
        /// How many.
        tokens: u64,
    },
    /// The request could not be counted.
    CountFailure {
        /// Why, in our own words.
        message: String,
    },
    /// The schemas of the tools that were asked for, in that order.
    Rendered {
        /// What the model reads about each tool.
        tools: Vec<RenderedTool>,
    },
    /// A tool's schema could not be had.
    RenderFailure {
        /// The tool's path.
        path: String,
    },
    /// A tool's output, as it came.
    ToolOutput {
        /// The text.
        text: String,
    },
    /// A tool failed.
    ToolFailure {
        /// What the model may read about it.
        message: String,
    },
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
            Self::Counted { .. } => "counted",
            Self::CountFailure { .. } => "count_failure",
            Self::Rendered { .. } => "rendered",
            Self::RenderFailure { .. } => "render_failure",
            Self::ToolOutput { .. } => "tool_output",
            Self::ToolFailure { .. } => "tool_failure",
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
            Self::Rendered { tools } => tools.iter().map(|tool| value_size(&tool.parameters)).sum(),
            Self::UserInput { text } | Self::ToolOutput { text } => text.len(),
            Self::ToolFailure { message } | Self::LibraryMissing { message } | Self::InputFailure { message } => {
                message.len()
            }
            Self::Counted { .. }
            | Self::CountFailure { .. }
            | Self::ModelFailure(_)
            | Self::RenderFailure { .. }
            | Self::InputUnavailable
            | Self::Dropped => 0,
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
