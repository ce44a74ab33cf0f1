//! Whether a request fits the model's context window: the estimate, the room kept for the reply, and the admission.

/// Tokens of framing that the estimate adds for each message sent.
pub const TOKENS_PER_MESSAGE: u64 = 4;
/// Bytes of text that the estimate counts as one token.
pub const BYTES_PER_TOKEN: u64 = 4;
/// The largest reserve, in tokens, of a model without a `max_tokens` setting.
pub const DEFAULT_RESERVE_LIMIT: u64 = 8192;
/// The context window, in tokens, of a model about which nothing is known.
pub const DEFAULT_CONTEXT: u64 = 8192;

/// The estimated tokens of `messages` messages that hold `bytes` bytes of text and serialized tool calls in all.
///
/// The division happens once, over the sum.
pub fn estimate_tokens(bytes: u64, messages: u64) -> u64 {
    (bytes / BYTES_PER_TOKEN).saturating_add(messages.saturating_mul(TOKENS_PER_MESSAGE))
}

/// The estimated tokens of one message that holds this text.
pub fn estimate_text(text: &str) -> u64 {
    estimate_tokens(text.len() as u64, 1)
}

/// The room kept for the reply, in tokens.
///
/// `max_tokens` when it is set, else an eighth of the window, at most [`DEFAULT_RESERVE_LIMIT`]; in both cases never
/// more than half the window.
pub fn reserve(context: u64, max_tokens: Option<u64>) -> u64 {
    max_tokens.unwrap_or_else(|| (context / 8).min(DEFAULT_RESERVE_LIMIT)).min(context / 2)
}

/// The outcome of the check before a request leaves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Precheck {
    /// Whether the request may be sent.
    pub admitted: bool,
    /// The tokens the request was counted as.
    pub count: u64,
    /// The tokens kept for the reply.
    pub reserve: u64,
    /// The sum, compared with the window.
    pub total: u64,
}

impl Precheck {
    /// Compares a request of `count` tokens, plus the reserve, with the window. An exact fit is admitted.
    pub fn new(count: u64, context: u64, max_tokens: Option<u64>) -> Self {
        let reserve = reserve(context, max_tokens);
        let total = count.saturating_add(reserve);
        Self { admitted: total <= context, count, reserve, total }
    }
}

/// Which gate found a request too large for the context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OverflowReason {
    /// The precheck; nothing was sent.
    Precheck,
    /// The provider refused the request.
    Provider,
}

impl OverflowReason {
    /// The reason as error values and compactors see it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Precheck => "precheck",
            Self::Provider => "provider",
        }
    }
}

/// A request that does not fit the context window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ContextOverflow {
    /// Which gate found it.
    pub reason: OverflowReason,
    /// The tokens of the request, as the provider counted them; `None` when it did not say, and for the precheck.
    pub used: Option<u64>,
    /// The most tokens that fit, in the provider's words; `None` when it did not say, and for the precheck.
    pub limit: Option<u64>,
}

impl ContextOverflow {
    /// A request that the precheck refused.
    pub const PRECHECK: Self = Self { reason: OverflowReason::Precheck, used: None, limit: None };
}

/// The message of a `context_exhausted` error with this reason.
pub fn exhausted_message(reason: &str) -> String {
    let detail = match reason {
        "precheck" => "the request precheck overflowed the model's context window",
        "provider" => "the provider rejected the request as exceeding the model's context window",
        other => other,
    };
    format!("context exhausted: {detail}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reserve_follows_the_window_and_max_tokens() {
        // PRE-10
        for (context, expected) in
            [(4096, 512), (8192, 1024), (65535, 8191), (65536, 8192), (131_072, 8192), (7, 0), (15, 1), (16, 2)]
        {
            assert_eq!(reserve(context, None), expected, "window {context}");
        }
        // PRE-08, PRE-11
        for (context, max_tokens, expected) in
            [(4096, 2048, 2048), (4096, 2049, 2048), (4096, 100_000, 2048), (100, 51, 50), (101, 101, 50), (1, 5, 0)]
        {
            assert_eq!(reserve(context, Some(max_tokens)), expected, "window {context}, max_tokens {max_tokens}");
        }
    }

    #[test]
    fn admission_at_the_edge() {
        // PRE-03, PRE-04, PRE-12
        assert!(Precheck::new(103, 123, Some(20)).admitted);
        assert!(!Precheck::new(103, 122, Some(20)).admitted);
        assert!(Precheck::new(103, 117, None).admitted);
        assert!(!Precheck::new(103, 116, None).admitted);
    }

    #[test]
    fn counts_do_not_wrap() {
        // PRE-30
        assert_eq!(estimate_tokens(3_000_000_000, 1), 750_000_004);
        assert_eq!(estimate_tokens(u64::MAX, u64::MAX), u64::MAX);
        assert!(!Precheck::new(u64::MAX, u64::MAX - 1, None).admitted);
    }
}
