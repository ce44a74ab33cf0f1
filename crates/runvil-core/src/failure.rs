//! Why a model call failed: the closed set of kinds, their fixed texts, and how a failed call is classified.

use std::fmt::{self, Write as _};

use crate::overflow::Classifier;

/// What kind of failure ended a model call.
///
/// Each kind has one fixed text ([`FailureKind::text`]); the provider's own words never become part of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FailureKind {
    /// The provider says that the request is larger than the model's context window.
    ContextOverflow,
    /// The provider limits the request rate (HTTP 429).
    RateLimited,
    /// The provider says that the usage quota is spent.
    QuotaExhausted,
    /// The provider is overloaded (HTTP 503 or 529).
    Overloaded,
    /// The provider refused the request on content policy grounds.
    Refused,
    /// No answer, or no next part of it, arrived in time.
    Timeout,
    /// The connection failed.
    Transport,
    /// The provider reported a fault of its own (HTTP 5xx).
    ServerError,
    /// The provider rejected the request (any other HTTP status).
    Rejected,
    /// The answer could not be understood.
    MalformedResponse,
    /// The answer held neither text nor tool calls.
    EmptyReply,
    /// Model access is off or not configured, or the credentials were not accepted (HTTP 401 and 403).
    Unavailable,
}

impl FailureKind {
    /// Every kind, in the order of the specification's table.
    pub const ALL: [Self; 12] = [
        Self::ContextOverflow,
        Self::RateLimited,
        Self::QuotaExhausted,
        Self::Overloaded,
        Self::Refused,
        Self::Timeout,
        Self::Transport,
        Self::ServerError,
        Self::Rejected,
        Self::MalformedResponse,
        Self::EmptyReply,
        Self::Unavailable,
    ];

    /// The kind's name, as Python code spells it.
    pub fn name(self) -> &'static str {
        match self {
            Self::ContextOverflow => "ContextOverflow",
            Self::RateLimited => "RateLimited",
            Self::QuotaExhausted => "QuotaExhausted",
            Self::Overloaded => "Overloaded",
            Self::Refused => "Refused",
            Self::Timeout => "Timeout",
            Self::Transport => "Transport",
            Self::ServerError => "ServerError",
            Self::Rejected => "Rejected",
            Self::MalformedResponse => "MalformedResponse",
            Self::EmptyReply => "EmptyReply",
            Self::Unavailable => "Unavailable",
        }
    }

    /// The kind with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// The fixed text of the kind.
    pub fn text(self) -> &'static str {
        match self {
            Self::ContextOverflow => "the request is larger than the model's context window",
            Self::RateLimited => "the model backend is limiting the request rate",
            Self::QuotaExhausted => "the model backend says the usage quota is spent",
            Self::Overloaded => "the model backend is overloaded",
            Self::Refused => "the model backend refused the request on content policy grounds",
            Self::Timeout => "the model backend did not answer in time",
            Self::Transport => "the connection to the model backend failed",
            Self::ServerError => "the model backend reported a fault of its own",
            Self::Rejected => "the model backend rejected the request",
            Self::MalformedResponse => "the model backend sent a reply that could not be understood",
            Self::EmptyReply => "the model replied with no text and no tool calls",
            Self::Unavailable => "model access is turned off or not configured",
        }
    }
}

impl fmt::Display for FailureKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A failed model call.
///
/// [`ModelFailure::message`] is safe to show anywhere; [`ModelFailure::detail`] holds the provider's own words and goes
/// to the Python error alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelFailure {
    /// What kind of failure it is.
    pub kind: FailureKind,
    /// The HTTP status, when the provider answered with one.
    pub status: Option<u16>,
    /// Our own words for what is wrong, appended to the text of a malformed response or of an unavailable model.
    pub note: Option<String>,
    /// The provider's own words. Never part of an event, a log or a Lua error value.
    pub detail: Option<String>,
    /// Of a context overflow the tokens of the request, as the provider counted them, when it said so. The tokens asked
    /// for the reply are part of the number where the provider made them so.
    pub used: Option<u64>,
    /// Of a context overflow the most tokens that fit, when the provider said so.
    pub limit: Option<u64>,
}

impl ModelFailure {
    /// A failure of this kind with nothing else known.
    pub fn new(kind: FailureKind) -> Self {
        Self { kind, status: None, note: None, detail: None, used: None, limit: None }
    }

    /// The message: the kind's text, then the note, then ` (status N)` when there is a status.
    pub fn message(&self) -> String {
        let mut text = if self.kind == FailureKind::Unavailable && matches!(self.status, Some(401 | 403)) {
            String::from("the model backend did not accept the credentials")
        } else {
            String::from(self.kind.text())
        };
        if let Some(note) = &self.note {
            text.push_str(": ");
            text.push_str(note);
        }
        if let Some(status) = self.status {
            // Writing into a `String` cannot fail.
            let _ = write!(text, " (status {status})");
        }
        text
    }
}

impl fmt::Display for ModelFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message())
    }
}

impl std::error::Error for ModelFailure {}

/// The phrases that mark a provider's rejection as a context overflow, in lower case.
const OVERFLOW_PHRASES: [&str; 12] = [
    "context length",
    "context window",
    "context size",
    "context_length_exceeded",
    "maximum context length",
    "prompt is too long",
    "too many tokens",
    "exceeds the available context size",
    "exceed_context_size",
    "input is too long",
    "exceeds the maximum number of tokens",
    "too large for model",
];

/// Phrases by which a provider says that a quota is spent, in lower case.
const QUOTA_PHRASES: [&str; 4] =
    ["insufficient_quota", "exceeded your current quota", "billing_hard_limit", "quota exceeded"];

/// Phrases by which a provider refuses a request on content policy grounds, in lower case.
const POLICY_PHRASES: [&str; 4] = ["content_policy", "content policy", "content_filter", "content management policy"];

/// Classifies a failed provider answer by the rules of the language.
///
/// `status` is the HTTP status; `None` is an error that arrived inside a started stream, which its body alone
/// classifies. Overflow is recognised for status 400 and 413 and inside a stream, and wins over every other reading.
/// The body becomes the failure's detail. A [`Classifier`] can be set to recognise more.
pub fn classify(status: Option<u16>, body: &str) -> ModelFailure {
    Classifier::default().classify(status, body)
}

/// The kind of a failed answer by its status and the phrases anywhere in its body.
pub(crate) fn strict_kind(status: Option<u16>, body: &str) -> FailureKind {
    match status {
        None | Some(400 | 413) if says(body, &OVERFLOW_PHRASES) => FailureKind::ContextOverflow,
        _ => fallback_kind(status, body),
    }
}

/// The kind of a failed answer that is no context overflow.
pub(crate) fn fallback_kind(status: Option<u16>, body: &str) -> FailureKind {
    match status {
        Some(401 | 403) => FailureKind::Unavailable,
        Some(402) => FailureKind::QuotaExhausted,
        Some(429) if says(body, &QUOTA_PHRASES) => FailureKind::QuotaExhausted,
        Some(429) => FailureKind::RateLimited,
        Some(503 | 529) => FailureKind::Overloaded,
        Some(408 | 504) => FailureKind::Timeout,
        Some(500..) => FailureKind::ServerError,
        None | Some(400) if says(body, &POLICY_PHRASES) => FailureKind::Refused,
        Some(_) => FailureKind::Rejected,
        None if says(body, &["rate_limit", "rate limit"]) => FailureKind::RateLimited,
        None if says(body, &["overloaded"]) => FailureKind::Overloaded,
        None => FailureKind::ServerError,
    }
}

/// Whether the body holds one of the phrases, in any case of letters.
fn says(body: &str, phrases: &[&str]) -> bool {
    let lower = body.to_lowercase();
    phrases.iter().any(|phrase| lower.contains(phrase))
}
