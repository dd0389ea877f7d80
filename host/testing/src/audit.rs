//! Auditors of ports. An auditor stands between a wire and the host, passes
//! everything on, and records what breaks the contract of a port. Every wire's tests can use them.
//!
//! - [`ExecuteAudit`] for wires that hand work in, [`LeaseAudit`] for wires whose workers execute
//!   our jobs.

mod execute;
mod lease;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use parking_lot::Mutex;

pub use execute::ExecuteAudit;
pub use lease::LeaseAudit;

/// The violations that an auditor has recorded, in order. Cloning shares them.
#[derive(Clone, Debug, Default)]
struct Violations(Arc<Mutex<Vec<String>>>);

impl Violations {
    fn note(&self, violation: String) {
        self.0.lock().push(violation);
    }

    fn list(&self) -> Vec<String> {
        self.0.lock().clone()
    }

    fn assert_none(&self, port: &str) {
        let all = self.list();
        assert!(
            all.is_empty(),
            "the contract of {port} is broken:\n{}",
            all.join("\n")
        );
    }
}
