//! What a block asks the Engine for, and what the Engine answers.

use std::sync::Arc;

use runvil_core::precheck::ContextOverflow;
use serde_json::{Map, Value as Json};

use crate::failure::Failure;
use crate::models::ModelHandle;

/// A call that waits for the Engine.
#[derive(Debug)]
pub enum Request {
    /// `models.infer` and `handle:infer`: one round over the prompt alone. Answered with a text.
    Infer {
        /// The handle it runs on; `None` is the section's current model.
        handle: Option<Arc<ModelHandle>>,
        /// The prompt.
        prompt: String,
    },
    /// `models.loop` and `handle:loop`. Answered with nothing, or with a call of the compactor.
    Loop {
        /// The handle every round runs on; `None` is the section's current model, looked up for each round.
        handle: Option<Arc<ModelHandle>>,
    },
    /// The compactor that a loop's answer asked for has returned. (One that raises ends the loop by itself.)
    Compacted,
    /// The handler of a local tool that a loop's answer asked for has returned this text. (One that raises ends the loop by
    /// itself.)
    Handled {
        /// The result.
        text: String,
    },
    /// `tools.call` of a pack's tool. Answered with a text or with data.
    ToolCall {
        /// The tool's path.
        path: String,
        /// The arguments.
        arguments: Map<String, Json>,
    },
    /// `call`: another section as a chain of its own. Answered with a text.
    Call {
        /// The heading reference.
        target: String,
        /// The chain's own argument string; `None` inherits the caller's.
        input: Option<String>,
        /// A copy of `var`.
        var: Json,
    },
    /// `user_input`. Answered with a text and whether it came from the operator.
    UserInput,
    /// `require`: the source of a library. Answered with the source.
    Library {
        /// The library's name.
        name: String,
    },
}

/// What a waiting call gets back.
#[derive(Debug)]
pub enum Answer {
    /// The call returns nothing.
    Done,
    /// The call returns this text.
    Text(String),
    /// The call returns this value.
    Data(Json),
    /// `user_input` returns this text and flag.
    Input {
        /// The text.
        text: String,
        /// Whether it came from the operator.
        available: bool,
    },
    /// `require` compiles and runs this source.
    Library {
        /// The source.
        source: Vec<u8>,
    },
    /// The loop calls its compactor with the reason of this overflow.
    Compact(ContextOverflow),
    /// The loop runs the handler of a local tool.
    Handle {
        /// The tool's name.
        name: String,
        /// The arguments.
        arguments: Map<String, Json>,
    },
    /// The call raises.
    Failed(Failure),
}
