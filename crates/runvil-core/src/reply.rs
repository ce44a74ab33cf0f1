//! A model's reply as the rest of the program sees it, whoever produced it.

use serde_json::Value;

/// Where a reply comes from.
///
/// It decides the text of the error an empty reply raises: a reply that was read names its own phrase, one that a
/// user's broker built does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplySource {
    /// Read from a backend (over HTTP, or from a file of scripted replies).
    #[default]
    Backend,
    /// Built by the application's own broker.
    Host,
}

/// The arguments of a tool call as the provider sent them.
#[derive(Debug, Clone, PartialEq)]
pub enum CallArguments {
    /// None were sent.
    Absent,
    /// JSON text, not yet decoded.
    Text(String),
    /// Decoded JSON in the provider's key order.
    Value(Value),
}

/// One tool call of a reply, not yet checked.
#[derive(Debug, Clone, PartialEq)]
pub struct ReplyCall {
    /// The call id; may still be blank.
    pub id: String,
    /// The name the model called; may still be blank.
    pub name: String,
    /// The arguments.
    pub arguments: CallArguments,
}

/// Token counts a provider reported. A count it left out is `None`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Usage {
    /// Tokens of the request.
    pub prompt_tokens: Option<u64>,
    /// Tokens of the reply, reasoning included.
    pub completion_tokens: Option<u64>,
    /// The provider's own sum.
    pub total_tokens: Option<u64>,
    /// The part of the completion that was reasoning.
    pub reasoning_tokens: Option<u64>,
    /// The part of the prompt that was read from a cache.
    pub cached_tokens: Option<u64>,
}

/// A reply to one model request.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reply {
    /// The visible text, byte for byte; `None` when the provider sent none.
    pub text: Option<String>,
    /// The tool calls, in the provider's order.
    pub tool_calls: Vec<ReplyCall>,
    /// The provider's finish reason, exactly as sent; `None` when it sent none.
    pub finish_reason: Option<String>,
    /// Token counts, when the provider reported any.
    pub usage: Option<Usage>,
    /// The model's reasoning text, when there was any.
    pub reasoning: Option<String>,
    /// The name of the model that served the request, as the provider gave it.
    pub model: Option<String>,
    /// Timings and counts beyond [`Usage`], as JSON, for the event log.
    pub metrics: Option<Value>,
    /// Metadata that arrived malformed and was ignored, one sentence each, for the event log.
    pub degraded: Vec<String>,
    /// Whether the reply was read from a backend or built by the application.
    pub source: ReplySource,
}

impl Reply {
    /// The text when it holds anything besides white space.
    pub fn product_text(&self) -> Option<&str> {
        self.text.as_deref().filter(|text| !text.trim().is_empty())
    }

    /// Whether the reply holds neither text nor tool calls. White space alone is no text, and reasoning is never a reply.
    pub fn is_empty(&self) -> bool {
        self.tool_calls.is_empty() && self.product_text().is_none()
    }
}
