//! The provider anchor: the token count a provider reported for a round, from which the next request is counted.

use std::fmt;

use crate::reply::Usage;
use crate::request::Request;

/// What is remembered of the latest measured round of a list.
#[derive(Clone, Default)]
pub struct Anchor {
    measured: Option<Measured>,
}

#[derive(Clone)]
struct Measured {
    model: String,
    sent: Request,
    tokens: u64,
}

impl Anchor {
    /// Nothing is measured yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes note of a round that was served, whatever became of its reply.
    ///
    /// Reported usage becomes the measurement. Without it, the one before stays, unless another model served the round.
    /// A round that failed is not noted.
    pub fn served(&mut self, model: &str, sent: &Request, usage: Option<&Usage>) {
        match usage.and_then(anchored_tokens) {
            Some(tokens) => {
                self.measured = Some(Measured { model: model.to_owned(), sent: sent.clone(), tokens });
            }
            None if self.measured.as_ref().is_some_and(|measured| measured.model != model) => self.measured = None,
            None => {}
        }
    }

    /// The tokens of the next request, when it goes to the measured model and extends the measured round: it begins
    /// with the very messages that round sent, and an assistant message, the reply, comes right after them. The count
    /// is the measured total plus the estimate of what follows the reply.
    ///
    /// A `model` of `None` stands for the measured one.
    pub fn count(&self, request: &Request, model: Option<&str>) -> Option<u64> {
        let measured = self.measured.as_ref()?;
        if model.is_some_and(|model| model != measured.model) {
            return None;
        }
        Some(measured.tokens.saturating_add(request.estimate_after_reply(&measured.sent)?))
    }
}

impl fmt::Debug for Anchor {
    /// Shows the count, never text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Anchor");
        if let Some(measured) = &self.measured {
            shown.field("model", &measured.model).field("tokens", &measured.tokens);
        }
        shown.finish_non_exhaustive()
    }
}

/// The tokens that the request and the reply take in the next request: reasoning is never sent back.
///
/// Both counts must be there; no reported reasoning counts as none.
pub fn anchored_tokens(usage: &Usage) -> Option<u64> {
    let total = usage.prompt_tokens?.saturating_add(usage.completion_tokens?);
    Some(total.saturating_sub(usage.reasoning_tokens.unwrap_or(0)))
}
