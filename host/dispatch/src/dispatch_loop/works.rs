//! What a turn has done, by kind of command: for the metric of long turns and their entry in the log. Pure.

use std::collections::BTreeMap;
use std::fmt;

use host_core::command::{Command, Reply};
use host_core::rejection::Rejection;

/// How much of each kind of work a turn has done: jobs, and dependencies of new jobs.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Works(BTreeMap<&'static str, u64>);

impl Works {
    pub(super) fn add(&mut self, command: &Command, reply: &Result<Reply, Rejection>) {
        let new = command.new_jobs().iter();
        let new: usize = new.map(|job| 1 + job.depends_on.len()).sum();
        let size = match (command, reply) {
            (Command::Enqueue(_), _) => new,
            (_, Ok(Reply::Claimed(jobs))) => jobs.len(),
            (_, Ok(Reply::Ticked { jobs, .. } | Reply::TakenBack { jobs, .. })) => *jobs as usize,
            _ => 1 + new,
        };
        *self.0.entry(command.kind()).or_default() += size as u64;
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
    use super::super::tests::bench::job;
    use super::*;

    #[test]
    fn a_turn_is_named_by_what_it_did_most_of() {
        let mut works = Works::default();
        assert_eq!(works.main(), "none");
        let mut new = job("noop");
        new.depends_on = vec![new.id; 3];
        let enqueue = Command::Enqueue(vec![new, job("noop")]);
        works.add(&enqueue, &Ok(Reply::Enqueued(Vec::new())));
        assert_eq!(works.main(), "enqueue");
        let ticked = Reply::Ticked {
            jobs: 9,
            next_wakeup: None,
        };
        works.add(&Command::Tick { limit: 9 }, &Ok(ticked));
        assert_eq!(
            (works.main(), works.to_string().as_str()),
            ("tick", "enqueue 5, tick 9")
        );
    }
}
