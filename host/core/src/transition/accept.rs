//! A new job is accepted.

use crate::job::{Lifecycle, LimitsOfJob, NewJob, State};
use crate::notify::Receiver;
use crate::suspicion::Suspicion;
use crate::time::Time;

impl Lifecycle {
    /// Makes the lifecycle of a new job. `prerequisites_open` is the number of jobs it still waits
    /// for.
    pub fn accept(now: Time, new: &NewJob, prerequisites_open: u32) -> Self {
        let mut job = Self {
            id: new.id,
            state: State::Pending,
            queue: new.queue.clone(),
            handler: new.handler.clone(),
            executor: new.executor.clone(),
            priority: new.priority,
            policy: new.policy.clone(),
            enqueued_at: now,
            run_at: new.run_at,
            deadline: new.deadline,
            prerequisites_open,
            attempt: 0,
            attempts_uncharged: 0,
            attempts_forgiven: 0,
            ran_ms: 0,
            lease_epoch: 0,
            lease: None,
            cancel: None,
            suspicion: Suspicion::NONE,
            finished_at: None,
            failure: None,
            owner: owner(new),
            limits: LimitsOfJob::default(),
            notify: new.notify.iter().cloned().map(Receiver::from).collect(),
            batch: new.batch_id(),
            conditions: new.conditions.clone(),
            ended_ms: 0,
        };
        if prerequisites_open == 0 {
            job.enter_queue(now);
        }
        job
    }
}

/// Returns the principal that a new job counts for.
fn owner(new: &NewJob) -> Option<Box<str>> {
    let origin = new.payload.origin.as_ref()?;
    origin.max_waiting.map(|_| origin.principal.as_str().into())
}
