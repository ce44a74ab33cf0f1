//! How much work a step may do before it pauses.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The work a step may still do, in Lua instructions or what takes about as long; without a limit at first.
///
/// A block that runs while nothing is left pauses at the next instruction it can be suspended at. Where that is changes
/// nothing of what it does.
#[derive(Debug, Clone, Default)]
pub struct Budget(Arc<State>);

// Only the thread that steps a run touches its budget: the order of the loads and stores is that of the program.
#[derive(Debug)]
struct State {
    left: AtomicU64,
    /// Whether a host call runs that may give up and be made again.
    may_interrupt: AtomicBool,
    interrupted: AtomicBool,
}

/// The value of a budget without a limit.
const UNLIMITED: u64 = u64::MAX;

impl Default for State {
    fn default() -> Self {
        Self { left: UNLIMITED.into(), may_interrupt: false.into(), interrupted: false.into() }
    }
}

impl Budget {
    /// Allows this much work from now on.
    pub fn limit(&self, work: u64) {
        self.0.left.store(work.min(UNLIMITED - 1), Ordering::Relaxed);
    }

    /// Allows any amount of work.
    pub fn lift(&self) {
        self.0.left.store(UNLIMITED, Ordering::Relaxed);
    }

    /// Whether there is a limit.
    pub fn is_limited(&self) -> bool {
        self.0.left.load(Ordering::Relaxed) != UNLIMITED
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.0.left.load(Ordering::Relaxed) == 0
    }

    /// Takes off work that was done.
    pub fn charge(&self, work: u64) {
        let left = self.0.left.load(Ordering::Relaxed);
        if left != UNLIMITED {
            self.0.left.store(left.saturating_sub(work), Ordering::Relaxed);
        }
    }

    /// Takes off work that a host call did. Gives whether the call has to give up.
    pub(crate) fn interrupts(&self, work: u64) -> bool {
        self.charge(work);
        let interrupts = self.is_spent() && self.0.may_interrupt.load(Ordering::Relaxed);
        if interrupts {
            self.0.interrupted.store(true, Ordering::Relaxed);
        }
        interrupts
    }

    /// Makes a host call that may be interrupted, before which it has changed nothing. Gives its result, and whether it
    /// was interrupted.
    pub(crate) fn interruptible<T>(&self, call: impl FnOnce() -> T) -> (T, bool) {
        self.0.may_interrupt.store(true, Ordering::Relaxed);
        let result = call();
        self.0.may_interrupt.store(false, Ordering::Relaxed);
        (result, self.0.interrupted.swap(false, Ordering::Relaxed))
    }

    /// Makes a host call without a limit; nothing is left afterwards.
    pub(crate) fn unlimited<T>(&self, call: impl FnOnce() -> T) -> T {
        self.lift();
        let result = call();
        self.limit(0);
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_is_spent_until_it_is_lifted() {
        let budget = Budget::default();
        budget.charge(u64::MAX);
        assert!(!budget.is_spent() && !budget.is_limited());
        budget.limit(3);
        budget.charge(2);
        assert!(budget.is_limited() && !budget.is_spent());
        budget.charge(2);
        assert!(budget.is_limited() && budget.is_spent());
        budget.lift();
        assert!(!budget.is_spent());
    }

    #[test]
    fn only_an_interruptible_call_gives_up_and_only_without_a_budget() {
        let budget = Budget::default();
        assert_eq!(budget.interruptible(|| budget.interrupts(1)), (false, false));
        budget.limit(2);
        assert_eq!(budget.interruptible(|| budget.interrupts(1)), (false, false));
        assert!(!budget.interrupts(1));
        assert_eq!(budget.interruptible(|| budget.interrupts(1)), (true, true));
        assert!(!budget.unlimited(|| budget.is_spent()));
        assert!(budget.is_spent());
    }
}
