//! Records jobs that were executed for other orchestrators, in the form of this host's own jobs.

use host_core::id::NodeId;
use host_core::job::Lifecycle;
use host_core::lease::{Fence, Hold};
use host_core::transition::Input;

use super::{Foreign, Record};
use crate::{Batch, Rows, Stop};

/// The outcome of an attempt that was stopped.
const CANCELLED: &str = "cancelled";

impl<R: Rows> Batch<'_, R> {
    /// Takes an ended job through all its states, each at the time at which it happened.
    pub(crate) fn record(&mut self, Record(foreign): &Record) -> Result<Box<Lifecycle>, Stop> {
        let Foreign {
            job: new,
            lease,
            started_at,
            finished_at,
            report,
        } = &**foreign;
        self.check_queues([&new.queue])?;
        let now = self.now;
        self.now = *started_at;
        let job = Lifecycle::accept(*started_at, new, 0);
        self.rows.insert(&job, new)?;
        self.record_change(None, Some(&job));
        // The job ends below, in the same batch, so its lease is never visible.
        let claim = Input::Claim {
            node: NodeId::NIL,
            lease: *lease,
            worker: &report.executor,
            hold: Hold::Connection,
        };
        let running = self.apply(&job, &claim);
        self.now = *finished_at;
        let ended = running.and_then(|running| {
            if report.outcome.as_str() == CANCELLED {
                self.asked_to_stop(&running)?;
            }
            self.complete(new.id, &Fence::Lease(*lease), report.clone(), None)
        });
        self.now = now;
        ended
    }

    /// Records that the job's orchestrator cancelled it. Drops the effects, because the run has already
    /// ended.
    fn asked_to_stop(&mut self, running: &Lifecycle) -> Result<(), Stop> {
        let cancel = Input::Cancel {
            reason: None,
            grace_ms: Some(0),
        };
        self.apply(running, &cancel)?;
        self.committed.effects.retain(|(id, _)| *id != running.id);
        Ok(())
    }
}
