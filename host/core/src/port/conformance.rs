//! Conformance: auditors that stand between a wire and the host in tests, pass everything on, and
//! note what breaks the contract of a door. Any wire's tests wrap their ports in them.
//!
//! - [`ExecuteAudit`] for wires that hand work in, [`AssignAudit`] for wires that push attempts,
//!   [`LeaseAudit`] for wires whose workers pull.

mod assign;
mod execute;
mod lease;

#[cfg(test)]
mod tests;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use assign::AssignAudit;
pub use execute::ExecuteAudit;
pub use lease::LeaseAudit;

/// What an auditor has noted, in order. Cloning shares it.
#[derive(Clone, Debug, Default)]
struct Violations(Arc<Mutex<Vec<String>>>);

impl Violations {
    fn note(&self, violation: String) {
        lock(&self.0).push(violation);
    }

    fn all(&self) -> Vec<String> {
        lock(&self.0).clone()
    }

    fn assert_none(&self, door: &str) {
        let all = self.all();
        assert!(
            all.is_empty(),
            "the contract of {door} is broken:\n{}",
            all.join("\n")
        );
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
