//! How much work a step may do before it pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// The work a step may still do, in Lua instructions or what takes about as long; without a limit at first.
///
/// A block that runs while nothing is left pauses at the next instruction it can be suspended at. Where that is changes
/// nothing of what it does.
#[derive(Debug, Clone)]
pub struct Budget(Arc<AtomicU64>);

/// The value of a budget without a limit.
const UNLIMITED: u64 = u64::MAX;

impl Default for Budget {
    fn default() -> Self {
        Self(Arc::new(AtomicU64::new(UNLIMITED)))
    }
}

// Only the thread that steps a run touches its budget: the order of its loads and stores is that of the program.
impl Budget {
    /// Allows this much work from now on.
    pub fn limit(&self, work: u64) {
        self.0.store(work.min(UNLIMITED - 1), Ordering::Relaxed);
    }

    /// Allows any amount of work.
    pub fn lift(&self) {
        self.0.store(UNLIMITED, Ordering::Relaxed);
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.0.load(Ordering::Relaxed) != UNLIMITED
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.0.load(Ordering::Relaxed) == 0
    }

    /// Takes off work that was done. Gives whether that used up the rest.
    pub fn charge(&self, work: u64) -> bool {
        let left = self.0.load(Ordering::Relaxed);
        if left == UNLIMITED || left == 0 {
            return false;
        }
        let rest = left.saturating_sub(work);
        self.0.store(rest, Ordering::Relaxed);
        rest == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_once() {
        let budget = Budget::default();
        assert!(!budget.charge(u64::MAX) && !budget.is_spent() && !budget.is_limited());
        budget.limit(3);
        assert!(budget.is_limited());
        assert!(!budget.charge(2) && !budget.is_spent());
        assert!(budget.charge(2) && budget.is_spent());
        assert!(!budget.charge(1));
        budget.lift();
        assert!(!budget.is_spent());
    }
}
