//! Workers that pull, in the loop: their messages become commands of the batch, and the answers are
//! sent after the commit.

use std::collections::{BTreeMap, HashMap};

use host_cells::port::CellPort;
use host_core::command::{Claimed, Reply};
use host_core::id::{JobId, LeaseId};
use host_core::job::{Lifecycle, State};
use host_core::lease::Fence;
use host_core::name::Name;
use host_core::outcome::Progress;
use host_core::port::lease::{Granted, LeaseError, LeaseMessage, Resumed, Standing};
use host_core::rejection::Rejection;
use host_core::time::Time;
use host_store::StoreError;

use super::Writer;
use super::batch::{Batch, Room, Target};
use crate::lease_mail::{LeaseMail, Resume, Told};
use crate::{SubmitError, assignment};

impl<P: CellPort> Writer<P> {
    /// Handles the messages of workers that pull.
    pub(super) fn hear_leases(&mut self, now: Time, batch: &mut Batch) {
        // Progress in this batch, which is not committed yet.
        let mut said: HashMap<JobId, (Fence, Progress)> = HashMap::new();
        for mail in self.leases.take() {
            match mail {
                LeaseMail::Ask(request, respond) => self.pulls.ask(now, request, respond),
                LeaseMail::Resume(resume) => self.resume(now, resume),
                LeaseMail::Tell(mut told) => {
                    told.attempt = self.pulls.attempt(told.job);
                    if let LeaseMessage::Heartbeat {
                        progress: Some(progress),
                    } = &told.message
                    {
                        said.insert(told.job, (told.fence.clone(), progress.clone()));
                    }
                    let latest = said.get(&told.job).filter(|(by, _)| *by == told.fence);
                    let latest = latest.map(|(_, progress)| progress.clone());
                    let progress = latest.or_else(|| self.shared.live.progress(told.job));
                    let command = self.pulls.command(&told, progress);
                    batch.told(command, told);
                }
            }
        }
    }

    /// Answers a wire that takes over the leases of an executor.
    fn resume(&mut self, now: Time, resume: Resume) {
        let jobs = self.pulls.resume(&resume.executor, &resume.events);
        let resumed = self.resumed(now, jobs).map_err(|error| {
            tracing::error!(%error, "cannot read the leases of an earlier life of the host");
            LeaseError::Stopping
        });
        // The requester may have gone.
        let _gone = resume.respond.respond(resumed).is_err();
    }

    fn resumed(&self, now: Time, jobs: Vec<(JobId, LeaseId)>) -> Result<Vec<Resumed>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let reader = self.store.reader()?;
        let mut resumed = Vec::new();
        for (job, id) in jobs {
            let Some(kept) = reader.job(job)? else {
                continue;
            };
            let Some(lease) = kept.lifecycle.lease.clone().filter(|lease| lease.id == id) else {
                continue;
            };
            let cancel = kept.lifecycle.cancel.clone();
            let claimed = Claimed {
                lifecycle: kept.lifecycle,
                payload: kept.payload,
            };
            resumed.push(Resumed {
                granted: Granted {
                    job,
                    lease: id,
                    expires_at: lease.expires_at,
                    ack_by: lease.ack_by,
                    assignment: assignment::make(now, id, claimed),
                },
                granted_at: lease.granted_at,
                worker: lease.worker,
                cancel,
            });
        }
        Ok(resumed)
    }

    /// Returns whether a claim may find work for a waiting worker.
    pub(super) fn may_grant(&self) -> bool {
        let executors = &self.executors;
        self.pulls
            .may_claim(|executor| executors.claimable_max(executor) > 0)
    }

    /// Offers the room of waiting workers. `new` counts the new jobs of each executor in this
    /// batch.
    pub(super) fn offer_waiters(&mut self, new: &BTreeMap<Name, u64>, rooms: &mut Vec<Room>) {
        let executors = &self.executors;
        let places = self.pulls.offer(|executor| {
            let coming = new.get(executor).copied().unwrap_or_default();
            executors.claimable_max(executor).saturating_add(coming)
        });
        rooms.extend(places.into_iter().map(|place| Room {
            target: Target::Waiter(place.waiter, place.executor),
            worker: place.worker,
            hold: place.hold,
        }));
    }

    /// Answers a worker's message after it was committed or refused.
    pub(super) fn answer(&mut self, now: Time, told: Told, reply: Result<Reply, Rejection>) {
        let answer = match reply {
            Ok(Reply::Moved(job)) => {
                self.noted(now, &told, &job);
                Ok(Standing::from(&*job))
            }
            // A message becomes no other command.
            Ok(_) => Err(LeaseError::Stopping),
            Err(rejection) => {
                tracing::debug!(job = %told.job, %rejection, "a worker's message is refused");
                Err(LeaseError::Rejected(rejection))
            }
        };
        // The worker may have gone.
        let _gone = told.respond.respond(answer).is_err();
    }

    /// Publishes what a message reports.
    fn noted(&self, now: Time, told: &Told, job: &Lifecycle) {
        let Some((attempt, granted_at)) = told.attempt else {
            return self.noted_for_another(now, told, job);
        };
        match &told.message {
            LeaseMessage::Heartbeat {
                progress: Some(progress),
            } => {
                self.progressed(now, told.job, attempt, progress.clone());
                // A later message of the same batch may have ended the lease.
                if self.pulls.attempt(told.job) != told.attempt {
                    self.shared.live.forget(told.job);
                }
            }
            LeaseMessage::Complete { outcome, .. } => {
                self.numbers.ended(outcome, now.since_ms(granted_at));
            }
            LeaseMessage::GiveBack { begun: true } | LeaseMessage::Exited(_) => self.numbers.lost(),
            _ => {}
        }
    }

    /// Publishes what a message reports about a lease that another node has granted.
    fn noted_for_another(&self, now: Time, told: &Told, job: &Lifecycle) {
        if let LeaseMessage::Heartbeat {
            progress: Some(progress),
        } = &told.message
            && self.told.is_some()
            && job.state == State::Running
        {
            self.progressed(now, told.job, job.attempt, progress.clone());
        }
    }
}

impl From<SubmitError> for LeaseError {
    fn from(error: SubmitError) -> Self {
        match error {
            SubmitError::Rejected(rejection) => Self::Rejected(rejection),
            SubmitError::StoreFull => Self::StoreFull,
            SubmitError::Busy | SubmitError::StoreMoved => Self::Busy,
            SubmitError::Stopping => Self::Stopping,
        }
    }
}
