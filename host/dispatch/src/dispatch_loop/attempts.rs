//! The attempts that run or have ended, and are not stored as ended yet: the params they keep in memory,
//! their spans, and their ends.

use std::sync::Arc;

use host_core::id::LeaseId;
use host_core::port::spans::Spans;
use host_core::time::Time;
use host_engine::lease::Claimed;
use host_engine::{Command, Committed, Rejection, Reply};

use super::batch::{Finished, Origin};
use super::intake::BATCH_BYTES_MAX;
use super::params_in_flight::ParamsInFlight;
use super::traces::Traces;
use crate::span::Enqueues;

pub(super) struct Attempts {
    params: ParamsInFlight,
    /// The spans of jobs, if they are collected.
    traces: Option<Traces>,
    /// Attempts that have ended but are not stored yet.
    finished: Vec<Finished>,
}

impl Attempts {
    pub(super) fn new(params_bytes_max: usize, spans: Option<Arc<dyn Spans>>) -> Self {
        Self {
            params: ParamsInFlight::new(params_bytes_max),
            traces: spans.map(Traces::new),
            finished: Vec::new(),
        }
    }

    /// Returns how many more bytes of params may be claimed.
    pub(super) fn params_bytes_left(&self) -> usize {
        self.params.bytes_left()
    }

    /// Begins the spans of new jobs.
    pub(super) fn enqueues(&self, now: Time, command: &mut Command) -> Enqueues {
        match &self.traces {
            Some(_) => Traces::enqueues(now, command),
            None => Vec::new(),
        }
    }

    /// Ends the spans of jobs that were accepted.
    pub(super) fn accepted(&self, now: Time, enqueues: Enqueues, reply: &Result<Reply, Rejection>) {
        if let Some(traces) = &self.traces {
            traces.accepted(now, enqueues, reply);
        }
    }

    /// Records an attempt that was claimed for a slot, if there is one.
    pub(super) fn begin(
        &mut self,
        now: Time,
        lease: LeaseId,
        claimed: &mut Claimed,
        worker: Option<&str>,
    ) {
        let bytes = claimed.payload.params.as_str().len();
        self.params.begin(lease, bytes);
        if let (Some(traces), Some(worker)) = (&mut self.traces, worker) {
            traces.begun(now, lease, claimed, worker);
        }
    }

    /// Records an attempt that has ended.
    pub(super) fn finish(&mut self, finished: Finished) {
        self.params.end(finished.lease);
        if let Some(traces) = &mut self.traces {
            traces.finished(&finished);
        }
        self.finished.push(finished);
    }

    /// Records that the params of an attempt are no longer needed.
    pub(super) fn forget_params(&mut self, lease: LeaseId) {
        self.params.end(lease);
    }

    /// Ends the spans of attempts that are over with a commit.
    pub(super) fn committed(&mut self, now: Time, origins: &[Origin], committed: &Committed) {
        if let Some(traces) = &mut self.traces {
            traces.committed(now, origins, committed);
        }
    }

    /// Returns whether all ends are stored.
    pub(super) const fn are_stored(&self) -> bool {
        self.finished.is_empty()
    }

    /// Takes the ends that are to be stored: up to one with which they are as much as a batch may be.
    pub(super) fn take_finished(&mut self) -> Vec<Finished> {
        let mut weight = 0;
        let taken = self
            .finished
            .iter()
            .take_while(|finished| {
                let has_room = weight < BATCH_BYTES_MAX;
                weight += finished.weight();
                has_room
            })
            .count();
        if taken == self.finished.len() {
            return std::mem::take(&mut self.finished);
        }
        let later = self.finished.split_off(taken);
        std::mem::replace(&mut self.finished, later)
    }

    /// Puts back ends that could not be stored.
    pub(super) fn put_back(&mut self, finished: Vec<Finished>) {
        self.finished.splice(0..0, finished);
    }
}

#[cfg(test)]
mod tests {
    use host_core::json::JsonText;
    use host_core::outcome::{Meter, Outcome, Report};
    use host_runtime::ids;

    use super::super::batch::End;
    use super::super::tests::bench::job;
    use super::*;

    fn returned(bytes: usize) -> Finished {
        let result = JsonText("0".repeat(bytes));
        Finished {
            job: job("noop").id,
            lease: ids::lease(),
            end: End::Reported(Box::new(Report {
                outcome: Outcome::Completed {
                    result: Some(result),
                },
                meter: Meter::default(),
                progress: None,
                executor: String::new(),
                revision: None,
                worker: None,
                requests: None,
            })),
        }
    }

    #[test]
    fn ends_are_stored_up_to_the_one_whose_result_is_too_much() {
        let mut attempts = Attempts::new(0, None);
        for _ in 0..3 {
            attempts.finish(returned(BATCH_BYTES_MAX / 2));
        }
        let taken = [(); 3].map(|()| attempts.take_finished().len());
        assert_eq!(taken, [2, 1, 0]);
    }
}
