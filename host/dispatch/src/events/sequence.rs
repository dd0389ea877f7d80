//! Puts the changes of several nodes into the order of their numbers, which have no gaps. Pure.

use std::borrow::Cow;
use std::collections::BTreeMap;

use host_core::command::Change;
use host_core::time::Time;

/// How many runs may wait for changes before them. Later ones are read again from the store.
const WAITING_MAX: usize = 256;

/// Changes with numbers in a row.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Run<'a> {
    /// The number of the first.
    pub(super) first: u64,
    pub(super) at: Time,
    pub(super) changes: Cow<'a, [Change]>,
}

/// What comes next, and what waits for it.
#[derive(Debug, Default)]
pub(super) struct Sequence {
    /// `None` before anything was offered.
    next: Option<u64>,
    waiting: BTreeMap<u64, (Time, Vec<Change>)>,
}

impl Sequence {
    /// Returns the number of the next change.
    pub(super) fn next(&self) -> Option<u64> {
        self.next
    }

    /// Returns whether changes wait for others before them.
    pub(super) fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Takes changes in, which may be known already. Returns those whose turn has come. The order begins
    /// with what is offered first, even if that is nothing. Only what has to wait is copied.
    pub(super) fn offer<'a>(
        &mut self,
        first: u64,
        at: Time,
        changes: &'a [Change],
    ) -> Vec<Run<'a>> {
        let next = *self.next.get_or_insert(first);
        let mut ready = Vec::new();
        if first <= next {
            self.pass(&mut ready, first, at, Cow::Borrowed(changes));
        } else {
            let known = self.waiting.get(&first).map_or(0, |(_, known)| known.len());
            if changes.len() > known && self.waiting.len() < WAITING_MAX {
                self.waiting.insert(first, (at, changes.to_vec()));
            }
        }
        while let Some(entry) = self.waiting.first_entry() {
            if self.next < Some(*entry.key()) {
                break;
            }
            let (first, (at, changes)) = entry.remove_entry();
            self.pass(&mut ready, first, at, Cow::Owned(changes));
        }
        ready
    }

    /// Adds what is new of changes whose turn has come.
    fn pass<'a>(
        &mut self,
        ready: &mut Vec<Run<'a>>,
        first: u64,
        at: Time,
        changes: Cow<'a, [Change]>,
    ) {
        let next = self.next.unwrap_or(first);
        let known = usize::try_from(next - first).unwrap_or(usize::MAX);
        if known >= changes.len() {
            return;
        }
        let changes = match changes {
            all if known == 0 => all,
            Cow::Borrowed(all) => Cow::Borrowed(all.get(known..).unwrap_or_default()),
            Cow::Owned(mut all) => {
                all.drain(..known);
                Cow::Owned(all)
            }
        };
        self.next = Some(next + changes.len() as u64);
        let first = next;
        ready.push(Run { first, at, changes });
    }
}

#[cfg(test)]
mod tests {
    use host_core::id::JobId;
    use uuid::Uuid;

    use super::*;

    /// Changes that carry their own numbers.
    fn changes(numbers: std::ops::Range<u64>) -> Vec<Change> {
        let change = |number: u64| Change {
            job: JobId(Uuid::from_u128(number.into())),
            handler: "h".parse().unwrap(),
            runner: None,
            queue: "q".parse().unwrap(),
            from: None,
            to: None,
            attempt: 0,
        };
        numbers.map(change).collect()
    }

    fn offer(sequence: &mut Sequence, numbers: std::ops::Range<u64>) -> Vec<u64> {
        let changes = changes(numbers.clone());
        let ready = sequence.offer(numbers.start, Time(0), &changes);
        let numbers = ready.iter().flat_map(|run| {
            let counted = run.first..run.first + run.changes.len() as u64;
            let own = run.changes.iter().map(|it| it.job.0.as_u128());
            assert!(own.eq(counted.clone().map(u128::from)), "{run:?}");
            counted
        });
        numbers.collect()
    }

    #[test]
    fn each_change_comes_once_and_in_its_turn() {
        let mut sequence = Sequence::default();
        for (offered, ready, is_waiting) in [
            (5..5, 0..0, false),
            (5..7, 5..7, false),
            (9..11, 0..0, true),
            (12..13, 0..0, true),
            // From the store: what is missing, and some that is known.
            (6..10, 7..11, true),
            (11..12, 11..13, false),
            (2..9, 0..0, false),
            (12..14, 13..14, false),
        ] {
            let expected: Vec<u64> = ready.collect();
            assert_eq!(
                offer(&mut sequence, offered.clone()),
                expected,
                "{offered:?}"
            );
            assert_eq!(sequence.is_waiting(), is_waiting, "{offered:?}");
        }
        assert_eq!(sequence.next(), Some(14));
    }

    #[test]
    fn what_waits_is_bounded_and_comes_from_the_store_later() {
        let mut sequence = Sequence::default();
        offer(&mut sequence, 0..0);
        let last = 10 + WAITING_MAX as u64 * 2;
        for number in 10..last {
            assert_eq!(offer(&mut sequence, number..number + 1), Vec::<u64>::new());
        }
        assert_eq!(sequence.waiting.len(), WAITING_MAX);
        let ready = offer(&mut sequence, 0..10);
        let expected: Vec<u64> = (0..10 + WAITING_MAX as u64).collect();
        assert_eq!(ready, expected, "what is next always has room");
    }
}
