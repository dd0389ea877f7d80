//! Requests that were not let in, for the audit: the first of a kind immediately, and how often it happened again in one
//! entry a minute. Pure.

use std::collections::BTreeMap;

use host_core::time::Time;
use host_engine::audit::Note;

/// How long repetitions are counted, in milliseconds.
pub(super) const WINDOW_MS: u64 = 60_000;

/// How many kinds are counted separately. Others are counted together.
const KINDS_MAX: usize = 1_024;

/// How many notes may wait to be recorded.
const WAITING_MAX: usize = 2 * KINDS_MAX;

/// What repeated denials have in common: the principal, the address, the verb, the route and the outcome.
pub(super) type Kind = [String; 5];

#[derive(Debug, Default)]
pub(super) struct Denials {
    seen: BTreeMap<Kind, Repeated>,
    ready: Vec<(Note, String)>,
}

#[derive(Debug)]
struct Repeated {
    since: Time,
    note: Note,
    again: u32,
}

impl Denials {
    /// Takes in a denial; `note` describes it, with this outcome.
    pub(super) fn record(&mut self, kind: Kind, note: impl FnOnce() -> Note, now: Time) {
        if let Some(repeated) = self.seen.get_mut(&kind) {
            repeated.again = repeated.again.saturating_add(1);
            return;
        }
        let [.., outcome] = &kind;
        let outcome = outcome.clone();
        let (kind, note) = if self.seen.len() < KINDS_MAX {
            (kind, note())
        } else {
            let others = [
                String::new(),
                String::new(),
                String::new(),
                String::new(),
                outcome.clone(),
            ];
            if let Some(repeated) = self.seen.get_mut(&others) {
                repeated.again = repeated.again.saturating_add(1);
                return;
            }
            (others, Note::new("any", "many different requests"))
        };
        self.push(note.clone(), outcome);
        let (since, again) = (now, 0);
        self.seen.insert(kind, Repeated { since, note, again });
    }

    fn push(&mut self, note: Note, outcome: String) {
        if self.ready.len() < WAITING_MAX {
            self.ready.push((note, outcome));
        }
    }

    /// Returns what is to be recorded now, each with its outcome.
    pub(super) fn take(&mut self, now: Time) -> Vec<(Note, String)> {
        let is_over = |repeated: &Repeated| now.since_ms(repeated.since) >= WINDOW_MS;
        let mut over = Vec::new();
        self.seen.retain(|kind, repeated| {
            if !is_over(repeated) {
                return true;
            }
            if repeated.again > 0 {
                let [.., outcome] = kind;
                let mut note = repeated.note.clone();
                // They had ids of their own.
                note.request = None;
                note.times = repeated.again;
                over.push((note, outcome.clone()));
            }
            false
        });
        for (note, outcome) in over {
            self.push(note, outcome);
        }
        std::mem::take(&mut self.ready)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(principal: &str) -> Kind {
        let texts = [
            principal,
            "192.0.2.1",
            "read",
            "GET /api/v1/jobs",
            "forbidden",
        ];
        texts.map(str::to_owned)
    }

    #[test]
    fn repeated_denials_are_counted_in_one_entry_a_minute() {
        let mut denials = Denials::default();
        let note = || Note::new("read", "GET /api/v1/jobs");
        for n in 0..50 {
            denials.record(kind("token:a"), note, Time(n));
        }
        denials.record(kind("token:b"), note, Time(60));
        let first: Vec<u32> = denials
            .take(Time(100))
            .iter()
            .map(|it| it.0.times)
            .collect();
        assert_eq!(first, [1, 1]);
        assert!(denials.take(Time(59_999)).is_empty());
        let later = denials.take(Time(60_070));
        let times: Vec<u32> = later.iter().map(|it| it.0.times).collect();
        assert_eq!(times, [49], "{later:?}");
        denials.record(kind("token:a"), note, Time(60_100));
        assert_eq!(denials.take(Time(60_101)).len(), 1, "a new minute");
    }

    #[test]
    fn memory_is_bounded() {
        let mut denials = Denials::default();
        for n in 0..5_000 {
            let note = || Note::new("read", "GET /");
            denials.record(kind(&n.to_string()), note, Time(0));
        }
        assert_eq!(denials.seen.len(), KINDS_MAX + 1);
        assert_eq!(denials.take(Time(1)).len(), KINDS_MAX + 1);
        let rest = denials.take(Time(60_000));
        assert_eq!(
            rest[0].0.times,
            5_000 - u32::try_from(KINDS_MAX).unwrap() - 1
        );
    }
}
