//! How much work checks of params may take. Several checks can share one budget, and a check ends
//! early if no caller waits for it any more.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How many steps the checks of one request, script or attempt may take together.
pub const STEPS_MAX: u64 = 5_000_000;

/// How many steps pass between two checks that a caller still waits.
const STEPS_UNSEEN: u64 = 4_096;

/// The steps that are left.
#[derive(Debug)]
pub struct Budget {
    left: u64,
    /// How many steps were left at the last check.
    seen: u64,
    gone: Option<Arc<AtomicBool>>,
    spent: bool,
}

/// Ends the checks that share its budget when it is dropped.
#[derive(Debug)]
pub struct BudgetGuard(Arc<AtomicBool>);

impl Drop for BudgetGuard {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(STEPS_MAX)
    }
}

impl Budget {
    pub const fn new(steps: u64) -> Self {
        Self {
            left: steps,
            seen: steps,
            gone: None,
            spent: false,
        }
    }

    /// Makes a budget that ends when the other value is dropped.
    pub fn ending(steps: u64) -> (Self, BudgetGuard) {
        let gone = Arc::new(AtomicBool::new(false));
        let budget = Self {
            gone: Some(Arc::clone(&gone)),
            ..Self::new(steps)
        };
        (budget, BudgetGuard(gone))
    }

    /// Returns how many steps are left.
    pub const fn left(&self) -> u64 {
        self.left
    }

    /// Returns whether a check was refused because it would take more than was left.
    pub const fn is_spent(&self) -> bool {
        self.spent
    }

    /// Takes `steps`. `None` if there are fewer, or if no caller waits any more.
    pub(super) fn take(&mut self, steps: u64) -> Option<()> {
        let left = self.left.checked_sub(steps);
        let unseen = self.seen.saturating_sub(self.left) >= STEPS_UNSEEN;
        let gone = unseen && {
            self.seen = self.left;
            let gone = self.gone.as_ref();
            gone.is_some_and(|gone| gone.load(Ordering::Relaxed))
        };
        let Some(left) = left.filter(|_| !gone) else {
            self.refuse();
            return None;
        };
        self.left = left;
        Some(())
    }

    pub(super) const fn refuse(&mut self) {
        self.left = 0;
        self.spent = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_budget_ends_with_its_steps_or_with_who_waits() {
        let mut budget = Budget::new(10);
        assert_eq!(budget.take(10), Some(()));
        assert!(!budget.is_spent());
        assert_eq!(budget.take(1), None);
        assert!(budget.is_spent());

        let (mut budget, waiting) = Budget::ending(u64::MAX);
        assert_eq!(budget.take(STEPS_UNSEEN), Some(()));
        drop(waiting);
        assert_eq!(budget.take(1), None, "the requester is gone");
    }
}
