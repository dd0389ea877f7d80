//! What a turn has done, by kind of command: for the metric of long turns and their entry in the log. Pure.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use host_engine::job::Ticked;
use host_engine::node::TakenBack;
use host_engine::{Command, Rejection, Reply, job};

use crate::numbers::Numbers;

/// How long a turn is that the log names.
const LONG_TURN: Duration = Duration::from_secs(1);

/// How much of each kind of work a turn has done: jobs, and dependencies of new jobs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Works(BTreeMap<&'static str, u64>);

impl Works {
    pub(super) fn add(&mut self, command: &Command, reply: &Result<Reply, Rejection>) {
        let new: usize = command
            .new_jobs()
            .iter()
            .map(|job| 1 + job.depends_on.len())
            .sum();
        let size = match (command, reply) {
            (Command::Job(job::Command::Enqueue(_) | job::Command::EnqueueOnce(_)), _) => new,
            (_, Ok(Reply::Claimed(jobs))) => jobs.len(),
            (_, Ok(Reply::Ticked(Ticked { jobs }) | Reply::TakenBack(TakenBack { jobs, .. }))) => {
                *jobs as usize
            }
            _ => 1 + new,
        };
        *self.0.entry(command.kind()).or_default() += size as u64;
    }

    /// Counts the turn that has done this, and logs it if it took long.
    pub(super) fn end_turn(&self, took: Duration, numbers: &Numbers) {
        numbers.turned(took, self.main());
        if took >= LONG_TURN {
            tracing::warn!(took_ms = took.as_millis(), works = %self, "a turn took long; no request was answered until then");
        }
    }

    /// Returns the kind that there was most of, `none` without a commit.
    pub(super) fn main(&self) -> &'static str {
        let most = self.0.iter().max_by_key(|(_, size)| **size);
        most.map_or("none", |(kind, _)| kind)
    }
}

impl fmt::Display for Works {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, (kind, size)) in self.0.iter().enumerate() {
            let between = if n == 0 { "" } else { ", " };
            write!(formatter, "{between}{kind} {size}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use host_engine::job::{Enqueue, Tick};
    use host_testing::Log;

    use super::super::tests::bench::job;
    use super::*;

    #[test]
    fn a_turn_is_named_by_what_it_did_most_of() {
        let mut works = Works::default();
        assert_eq!(works.main(), "none");
        let mut new = job("noop");
        new.depends_on = vec![new.id; 3];
        let enqueue = Enqueue(vec![new, job("noop")]);
        works.add(&enqueue.into(), &Ok(Reply::Enqueued(Vec::new())));
        assert_eq!(works.main(), "enqueue");
        let ticked = Reply::Ticked(Ticked { jobs: 9 });
        works.add(&Tick { limit: 9 }.into(), &Ok(ticked));
        assert_eq!(
            (works.main(), works.to_string().as_str()),
            ("tick", "enqueue 5, tick 9")
        );
    }

    #[test]
    fn a_turn_of_a_second_is_logged_with_what_it_did() {
        let (log, _guard) = Log::of_this_thread();
        let mut works = Works::default();
        let enqueue = Enqueue(vec![job("noop")]);
        works.add(&enqueue.into(), &Ok(Reply::Enqueued(Vec::new())));
        works.end_turn(Duration::from_millis(999), &Numbers::default());
        assert_eq!(log.lines_with("a turn took long"), Vec::<String>::new());
        works.end_turn(Duration::from_secs(1), &Numbers::default());
        let lines = log.lines_with("a turn took long");
        assert_eq!(lines.len(), 1, "{lines:?}");
        let line = &lines[0];
        assert!(line.contains("took_ms=1000 works=enqueue 1"), "{line}");
    }
}
