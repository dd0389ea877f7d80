//! Claims: which available jobs start now, and at which slots.

use std::collections::{BTreeMap, BTreeSet};

use host_core::id::JobId;
use host_core::job::{KeyOfJob, Lane, Lifecycle, State};
use host_core::suspicion::{GROUP_JOBS_MAX, Groups};
use host_core::transition::Input;

use super::{Claim, Claimed, Slot};
use crate::job::JobRefusal;
use crate::{Batch, Rows, Stop, StoreError};

impl<R: Rows> Batch<'_, R> {
    /// Leases claimable jobs of each lane, at most one for each of its slots; suspects in the order in which they
    /// fit into groups.
    pub(crate) fn claim(&mut self, claim: &Claim) -> Result<Vec<Claimed>, Stop> {
        let Claim {
            node,
            slots,
            except,
            params_bytes_max,
        } = claim;
        let mut bytes = 0;
        let mut claimed = Vec::with_capacity(slots.len());
        let mut lanes: BTreeMap<&Lane, Vec<&Slot>> = BTreeMap::new();
        for slot in slots {
            lanes.entry(&slot.lane).or_default().push(slot);
        }
        for (lane, slots) in lanes {
            let nothing = BTreeSet::new();
            let except = match lane {
                Lane::Shared | Lane::Apart => except,
                Lane::Executor(_) => &nothing,
            };
            let mut groups = Groups::new(slots.len().div_ceil(GROUP_JOBS_MAX));
            let mut slots = slots.into_iter();
            // Others take the slots of jobs whose keys are held.
            let mut is_done = false;
            while !is_done {
                is_done = true;
                for id in self.rows.claimable(lane, except, slots.len())? {
                    let Some(job) = self.claimable_job(id)? else {
                        is_done = false;
                        continue;
                    };
                    if let Some(place) = self.held_place(&job)? {
                        is_done &= !self.withhold(&job, place)?;
                        continue;
                    }
                    // A job past its deadline is not leased. Its tick is due and ends it.
                    if job.is_overdue(self.now)
                        || (*lane == Lane::Apart && groups.add(job.suspicion).is_none())
                    {
                        continue;
                    }
                    if slots.len() == 0 {
                        break;
                    }
                    let read = self.rows.payload(id);
                    let Some(payload) = self.readable_part(id, read)? else {
                        is_done = false;
                        continue;
                    };
                    let Some(slot) = slots.next() else {
                        break;
                    };
                    let input = Input::Claim {
                        node: *node,
                        lease: slot.lease,
                        worker: &slot.worker,
                        hold: slot.hold,
                    };
                    let lifecycle = self.apply(&job, &input)?;
                    bytes += payload.params.as_str().len();
                    claimed.push(Claimed { lifecycle, payload });
                    if bytes >= *params_bytes_max {
                        return Ok(claimed);
                    }
                }
                is_done |= slots.len() == 0;
            }
        }
        Ok(claimed)
    }

    /// Reads a job that the store shows as available. Returns `None` if this host cannot read it.
    fn claimable_job(&mut self, id: JobId) -> Result<Option<Lifecycle>, Stop> {
        let read = self.rows.job(id).and_then(|job| match job {
            Some(job) if job.id == id && job.state == State::Available => Ok(Some(job)),
            Some(_) => Err(StoreError::Unreadable {
                what: format!("job {id}"),
                message: "its record is not that of an available job, though its columns are"
                    .to_owned(),
            }),
            None => Ok(None),
        });
        match self.readable_part(id, read)? {
            Some(None) => Err(JobRefusal::Unknown(id).into()),
            read => Ok(read.flatten()),
        }
    }

    /// Returns which key of an available job is held, if one is.
    fn held_place(&mut self, job: &Lifecycle) -> Result<Option<u8>, Stop> {
        if job.limits.keys.is_empty() {
            return Ok(None);
        }
        self.rows.lock_limits()?;
        let limits = self.rows.limits()?;
        for (place, KeyOfJob { key, .. }) in (0..).zip(&job.limits.keys) {
            let is_limited = limits.get(key.limit).is_some();
            if is_limited && self.rows.key_use(key)?.is_held(self.now) {
                return Ok(Some(place));
            }
        }
        Ok(None)
    }

    /// Makes an available job wait for its key that is held. Returns false if the batch cannot move it any more: the next
    /// claim continues.
    fn withhold(&mut self, job: &Lifecycle, place: u8) -> Result<bool, Stop> {
        if self.moves_left == 0 {
            self.claims_go_on = true;
            return Ok(false);
        }
        self.moves_left -= 1;
        self.apply(job, &Input::Withhold(place))?;
        Ok(true)
    }
}
