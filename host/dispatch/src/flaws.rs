//! Which records that this host cannot read its log has named: each once.

use std::collections::BTreeSet;

use parking_lot::Mutex;

/// How many records are named.
const FLAWS_MAX: usize = 1_000;

/// What the log has said about records that this host cannot read.
#[derive(Debug, Default)]
pub(crate) struct FlawLog(Mutex<BTreeSet<String>>);

impl FlawLog {
    /// Says why a record cannot be read, unless the log has said so.
    pub(crate) fn report(&self, flaw: &str) {
        if self.is_new(flaw) {
            tracing::error!("{flaw}; until then the host leaves it out and does the rest");
        }
    }

    fn is_new(&self, flaw: &str) -> bool {
        let mut known = self.0.lock();
        known.len() < FLAWS_MAX && known.insert(flaw.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_record_is_named_once() {
        let log = FlawLog::default();
        let news: Vec<bool> = ["a", "b", "a", "b"].map(|flaw| log.is_new(flaw)).into();
        assert_eq!(news, [true, true, false, false]);
    }
}
