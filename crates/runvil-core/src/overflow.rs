//! Which failed answers, and which replies, are context overflows, beyond what [`classify`](crate::failure::classify)
//! knows.

mod body;
mod patterns;

use std::fmt;
use std::sync::Arc;

use regex::Regex;

use crate::failure::{FailureKind, ModelFailure, fallback_kind, strict_kind};
use crate::reply::Reply;
use body::ErrorBody;
use patterns::{Counts, Verdict};

/// How widely context overflows are recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OverflowMode {
    /// By the phrases of [`classify`](crate::failure::classify) alone, anywhere in the body.
    #[default]
    Strict,
    /// By the error's code, by the wording of its message field, and by the token counts of a reply. For gateways, which
    /// pass on the errors of many providers.
    Extended,
}

impl OverflowMode {
    /// Every mode.
    pub const ALL: [Self; 2] = [Self::Strict, Self::Extended];

    /// The mode's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Strict => "strict",
            Self::Extended => "extended",
        }
    }

    /// The mode with this name, if there is one.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|mode| mode.name() == name)
    }
}

/// A Host's own rule: failed answers with this wording are, or are not, context overflows.
#[derive(Debug, Clone)]
pub struct OverflowRule {
    pattern: Regex,
    status: Option<u16>,
    overflow: bool,
}

impl OverflowRule {
    /// A rule for answers whose message holds a match of `pattern`, a regular expression in the syntax of the `regex`
    /// crate. Its groups `used` and `limit`, where it has them, are the token counts of the failure.
    ///
    /// With a `status` only answers of that HTTP status fit. `overflow` says what an answer that fits is.
    pub fn new(pattern: &str, status: Option<u16>, overflow: bool) -> Result<Self, PatternError> {
        let pattern = Regex::new(pattern).map_err(|error| PatternError { reason: error.to_string() })?;
        Ok(Self { pattern, status, overflow })
    }

    /// The regular expression as it was given.
    pub fn pattern(&self) -> &str {
        self.pattern.as_str()
    }

    /// The HTTP status the rule is about; `None` for every answer and for errors inside a stream.
    pub fn status(&self) -> Option<u16> {
        self.status
    }

    /// Whether an answer that fits is an overflow.
    pub fn is_overflow(&self) -> bool {
        self.overflow
    }

    fn judge(&self, status: Option<u16>, texts: &[&str]) -> Option<Verdict> {
        if self.status.is_some() && self.status != status {
            return None;
        }
        let found = texts.iter().find_map(|text| self.pattern.captures(text))?;
        Some(if self.overflow { Verdict::Overflow(Counts::of(&found)) } else { Verdict::Other })
    }
}

/// A regular expression that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PatternError {
    reason: String,
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "an overflow rule's pattern must be a regular expression: {}", self.reason)
    }
}

impl std::error::Error for PatternError {}

/// Classifies failed answers by a mode and a Host's rules. A clone is cheap.
///
/// The rules are asked first, in order; the first that fits decides. Where the mode and the rules find no overflow, the
/// kind of the failure is the one its status gives.
#[derive(Debug, Clone, Default)]
pub struct Classifier {
    mode: OverflowMode,
    rules: Arc<[OverflowRule]>,
}

impl Classifier {
    /// A classifier of this mode, with a Host's rules in the order they are asked.
    pub fn new(mode: OverflowMode, rules: Vec<OverflowRule>) -> Self {
        Self { mode, rules: rules.into() }
    }

    /// Classifies a failed answer. `status` is the HTTP status; `None` is an error inside a started stream.
    ///
    /// The body becomes the failure's detail, and the token counts that an overflow's message names its counts.
    pub fn classify(&self, status: Option<u16>, body: &str) -> ModelFailure {
        let error = ErrorBody::read(body);
        let (kind, counts) = match self.judge(status, body, &error) {
            Some(Verdict::Overflow(counts)) => (FailureKind::ContextOverflow, counts),
            Some(Verdict::Other) => (fallback_kind(status, body), Counts::default()),
            None => match strict_kind(status, body) {
                FailureKind::ContextOverflow => (FailureKind::ContextOverflow, patterns::counts(&error.texts(body))),
                kind => (kind, Counts::default()),
            },
        };
        let counts = if kind == FailureKind::ContextOverflow { counts.or(error.counts) } else { counts };
        ModelFailure {
            status,
            detail: (!body.is_empty()).then(|| body.to_owned()),
            used: counts.used,
            limit: counts.limit,
            ..ModelFailure::new(kind)
        }
    }

    /// What the rules and the mode say; `None` leaves it to the phrases.
    fn judge(&self, status: Option<u16>, body: &str, error: &ErrorBody) -> Option<Verdict> {
        if !self.rules.is_empty() {
            let texts = error.texts(body);
            if let Some(verdict) = self.rules.iter().find_map(|rule| rule.judge(status, &texts)) {
                return Some(verdict);
            }
        }
        if self.mode == OverflowMode::Strict {
            return None;
        }
        if let Some(is_overflow) = error.code_verdict() {
            return Some(if is_overflow && !settles_itself(status) {
                Verdict::Overflow(patterns::counts(&error.texts(body)))
            } else {
                Verdict::Other
            });
        }
        if error.messages.is_empty() {
            return None;
        }
        Some(if has_wording(status) { patterns::judge(&error.texts(body)) } else { Verdict::Other })
    }

    /// The failure of a reply that arrived although its request did not fit the model's context window, by the token
    /// counts the provider reported. `None` in strict mode.
    ///
    /// That is a reply whose prompt is larger than the `window` (tokens), and one that was cut off before it began: no
    /// text, no calls, the finish reason `length`, and either a prompt that fills the window or no output by the
    /// provider's own count.
    pub fn judge_reply(&self, reply: &Reply, window: Option<u64>) -> Option<ModelFailure> {
        if self.mode == OverflowMode::Strict {
            return None;
        }
        let usage = reply.usage.unwrap_or_default();
        let prompt = usage.prompt_tokens;
        let is_over = prompt.zip(window).is_some_and(|(prompt, window)| prompt > window);
        let fills = prompt.zip(window).is_some_and(|(prompt, window)| prompt >= window);
        let no_output = usage.completion_tokens == Some(0) && reply.reasoning.is_none();
        let was_cut_off = reply.finish_reason.as_deref() == Some("length") && reply.is_empty();
        (is_over || (was_cut_off && (fills || no_output))).then(|| ModelFailure {
            used: prompt,
            limit: window,
            ..ModelFailure::new(FailureKind::ContextOverflow)
        })
    }
}

/// Whether a status says by itself what failed: the credentials or the bill.
fn settles_itself(status: Option<u16>) -> bool {
    matches!(status, Some(401..=403))
}

/// Whether the wording of a message counts: for errors inside a stream, for the statuses that reject a request, and for
/// those that a gateway gives an answer it did not understand.
fn has_wording(status: Option<u16>) -> bool {
    matches!(status, None | Some(400 | 413 | 422 | 424 | 500 | 502))
}
