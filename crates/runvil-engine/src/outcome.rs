//! How a run ended.

use runvil_core::reply::Usage;

use crate::error::RunError;

/// The end of a run.
#[derive(Debug, Clone, PartialEq)]
pub enum Ending {
    /// It ended with this text.
    Completed(String),
    /// It failed.
    Failed(Box<RunError>),
    /// It was cancelled.
    Cancelled,
}

/// The end of a run, with what it used.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it ended.
    pub ending: Ending,
    /// Replies received.
    pub turns: u64,
    /// Token sums over all replies; a count that no reply reported is `None`.
    pub usage: Usage,
}

impl Outcome {
    /// The token sums by name. A provider's own totals are not summed up; they follow from these.
    pub fn usage_fields(&self) -> serde_json::Map<String, serde_json::Value> {
        let mut fields = crate::reports::usage_fields(&self.usage);
        fields.shift_remove("total_tokens");
        fields
    }
}
