//! The findings of a check of a store.

use host_core::audit::Entry;

/// The maximum number of findings in one check. A store with more cannot be repaired row by row.
pub(crate) const FINDINGS_MAX: usize = 1_000;

/// One problem that a check has found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it concerns: the store, a job or a queue.
    pub what: String,
    /// What is wrong.
    pub message: String,
}

/// The findings of one check.
#[derive(Default)]
pub(crate) struct Findings(pub(crate) Vec<Finding>);

impl Findings {
    /// Adds what is wrong with an entry of the audit that should follow `before`.
    pub(crate) fn entry(&mut self, before: Option<&Entry>, entry: &Entry) {
        if let Some(flaw) = entry.flaw(before) {
            self.add(format!("entry {} of the audit", entry.number), flaw);
        }
    }

    pub(crate) fn add(&mut self, what: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < FINDINGS_MAX {
            let (what, message) = (what.into(), message.into());
            self.0.push(Finding { what, message });
        }
    }
}
