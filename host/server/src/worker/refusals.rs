//! Counts refusals and logs them too, because a worker shows no metrics.

use std::collections::BTreeMap;

use host_core::port::Counters;
use parking_lot::Mutex;

use crate::metrics::Metrics;

/// The more refusals a code has, the fewer of them are logged, so that no peer can fill the log.
pub(super) struct LoggedRefusals {
    counts: Mutex<BTreeMap<&'static str, u64>>,
    metrics: Metrics,
}

/// How a refusal is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Note {
    Warning,
    /// It is a part of the work, like that of a worker without room.
    Debug,
}

impl LoggedRefusals {
    pub(super) fn new(metrics: Metrics) -> Self {
        Self {
            counts: Mutex::default(),
            metrics,
        }
    }
}

impl Counters for LoggedRefusals {
    fn refused(&self, wire: &'static str, code: &'static str) {
        self.metrics.refused(wire, code);
        let mut counts = self.counts.lock();
        let count = counts.entry(code).or_default();
        *count += 1;
        match note(wire, code, *count) {
            Some(Note::Warning) => {
                tracing::warn!(wire, code, count = *count, "messages are refused");
            }
            Some(Note::Debug) => {
                tracing::debug!(wire, code, count = *count, "messages are refused");
            }
            None => {}
        }
    }

    fn set_depth(&self, wire: &'static str, worker: &str, state: &'static str, count: u64) {
        self.metrics.set_depth(wire, worker, state, count);
    }
}

/// Returns how to log the refusal that is the `count`th of its code.
fn note(wire: &str, code: &str, count: u64) -> Option<Note> {
    let role = host_wires::find(wire).and_then(|wire| wire.worker_role);
    let is_usual = role.is_some_and(|role| role.usual_refusals.contains(&code));
    let note = if is_usual { Note::Debug } else { Note::Warning };
    count.is_power_of_two().then_some(note)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_a_part_of_the_work_is_no_warning() {
        let mut notes = Vec::new();
        for wire in host_wires::WIRES {
            let usual = wire.worker_role.map_or(&[][..], |role| role.usual_refusals);
            for (code, _) in wire.refusals {
                let expected = if usual.contains(code) {
                    Note::Debug
                } else {
                    Note::Warning
                };
                let seen = [1, 2, 3, 4].map(|count| note(wire.name, code, count));
                let expected = [Some(expected), Some(expected), None, Some(expected)];
                assert_eq!(seen, expected, "{} {code}", wire.name);
                notes.extend(seen);
            }
        }
        assert!(notes.contains(&Some(Note::Debug)));
    }
}
