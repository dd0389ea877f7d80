//! Takes back the leases that ended with a node, a number of running jobs with each command.

use host_core::id::NodeId;
use host_core::lease::{Fence, Hold};
use host_core::transition::{Input, Loss};

use super::{Recover, TAKEN_BACK_MAX, TakeOver, TakenBack};
use crate::{Batch, Rows, Stop};

impl<R: Rows> Batch<'_, R> {
    /// Takes back the leases of a host that has started.
    pub(super) fn recover(&mut self, recover: &Recover) -> Result<TakenBack, Stop> {
        let Recover {
            node,
            living,
            after,
        } = recover;
        // If others live, its workers could reach these.
        let host_was_away = living.is_empty();
        let is_left = |of| !living.contains(&of);
        let (jobs, next) = self.take_back(*node, is_left, host_was_away, *after)?;
        let next = next.map(|after| (after, None));
        Ok(TakenBack { jobs, next })
    }

    /// Takes back the leases of a dead node, once it can no longer write.
    pub(super) fn take_over(
        &mut self,
        TakeOver { dead, after }: &TakeOver,
    ) -> Result<TakenBack, Stop> {
        let (mut jobs, mut next) = (0, None);
        if let Some(fenced) = self.rows.fence(dead)? {
            let taken = self.take_back(dead.node, |of| of == dead.node, false, *after)?;
            jobs = taken.0;
            match taken.1 {
                Some(after) => next = Some((after, Some(fenced))),
                None => self.rows.end_take_over(&fenced)?,
            }
        }
        Ok(TakenBack { jobs, next })
    }

    /// Takes back the leases that end with `node`, and makes those by TTL of the nodes that `is_left` names
    /// leases of `node`: of a number of running jobs from a place on. Returns how many leases ended, and where to continue.
    fn take_back(
        &mut self,
        node: NodeId,
        is_left: impl Fn(NodeId) -> bool,
        host_was_away: bool,
        after: i64,
    ) -> Result<(u32, Option<i64>), Stop> {
        let running = self.rows.running(after, TAKEN_BACK_MAX)?;
        let is_cut = running.len() == TAKEN_BACK_MAX;
        let next = running.last().filter(|_| is_cut).map(|(place, _)| *place);
        let mut jobs = 0;
        for (_, id) in running {
            let Some(mut job) = self.readable_job(id)? else {
                continue;
            };
            let before = job.clone();
            let Some(lease) = &mut job.lease else {
                continue;
            };
            let fence = Fence::Lease(lease.id);
            match lease.hold {
                Hold::Connection if lease.ends_with(node) => {
                    jobs += 1;
                    self.apply(&job, &Input::Lose(&fence, Loss::HostRestarted))?;
                }
                Hold::Ttl { ttl_ms } if is_left(lease.node) => {
                    if std::mem::replace(&mut lease.node, node) != node {
                        self.rows.update(&before, &job)?;
                    }
                    let renew = Input::Renew {
                        fence: &fence,
                        until: self.now.plus_ms(ttl_ms),
                        host_was_away,
                    };
                    self.apply(&job, &renew)?;
                }
                Hold::Connection | Hold::Ttl { .. } => {}
            }
        }
        Ok((jobs, next))
    }
}
