//! How an answered round is judged: by what it produced, and only an empty one by its finish reason.

use crate::reply::{Reply, ReplySource};

/// The phrase of an empty reply that was read from a backend.
pub const EMPTY_REPLY: &str = "the model replied with no text and no tool calls";
/// The phrase of an empty reply that held reasoning.
pub const EMPTY_REPLY_REASONING: &str =
    "the model replied with no text and no tool calls: reasoning content was present but ignored";
/// The phrase of an empty reply that the application built.
pub const EMPTY_REPLY_HOST: &str = "empty model reply";

/// What the tool loop does with an answered round. A context overflow is no answer and is handled before.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Judgement {
    /// The model asks for tools; its text, if any, is not recorded.
    ToolRound,
    /// The reply's text, verbatim: the terminal record.
    Terminal(String),
    /// An empty reply that ends the conversation on purpose: the terminal record is empty.
    CleanExit,
    /// An empty reply that fails the round.
    Empty(EmptyReply),
}

/// An empty reply: the fields of an `empty_model_reply` error value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmptyReply {
    /// The error's message.
    pub message: &'static str,
    /// The provider's finish reason, exactly as sent.
    pub finish_reason: Option<String>,
}

/// Judges one reply.
///
/// `answered_calls` counts the tool calls answered so far by the same loop call, failed ones included.
pub fn judge(reply: &Reply, answered_calls: u64) -> Judgement {
    if !reply.tool_calls.is_empty() {
        return Judgement::ToolRound;
    }
    if let Some(text) = reply.product_text() {
        return Judgement::Terminal(text.to_owned());
    }
    if answered_calls > 0 && reply.finish_reason.as_deref() == Some("stop") {
        return Judgement::CleanExit;
    }
    Judgement::Empty(EmptyReply { message: empty_message(reply), finish_reason: reply.finish_reason.clone() })
}

fn empty_message(reply: &Reply) -> &'static str {
    let reasoned = reply.reasoning.as_deref().is_some_and(|reasoning| !reasoning.trim().is_empty());
    match reply.source {
        ReplySource::Host => EMPTY_REPLY_HOST,
        ReplySource::Backend if reasoned => EMPTY_REPLY_REASONING,
        ReplySource::Backend => EMPTY_REPLY,
    }
}
