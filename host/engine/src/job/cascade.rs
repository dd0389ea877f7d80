//! Settles the jobs that wait for one that has ended, and those that wait for them: a few in the same batch, the
//! rest in ticks. What is left is in the store, so it survives the host.

use host_core::id::JobId;
use host_core::job::{Lifecycle, State};
use host_core::transition::Input;

use super::results::{INPUT_BYTES_MAX, Results};
use crate::{Batch, Rows, Stop, StoreError};

/// How many dependencies the commands of a batch settle at most, beside those of a tick.
pub(crate) const SETTLED_MAX: usize = 256;

/// How many dependencies are read at a time.
const SLICE: usize = 256;

/// A job that has ended and for which others wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cascade {
    pub prerequisite: JobId,
    /// How it ended, which decides what becomes of those that wait for it.
    pub ended: State,
}

impl Cascade {
    fn of(ended: &Lifecycle) -> Self {
        Self {
            prerequisite: ended.id,
            ended: ended.state,
        }
    }
}

/// A cascade in a batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Open {
    cascade: Cascade,
    /// Whether the store has it.
    is_kept: bool,
}

impl<R: Rows> Batch<'_, R> {
    /// Settles the jobs that wait for one that has ended or is removed, as far as the batch goes.
    pub(crate) fn cascade(&mut self, ended: &Lifecycle) -> Result<(), Stop> {
        self.open.push_back(Open {
            cascade: Cascade::of(ended),
            is_kept: false,
        });
        self.until = self.until.or_else(|| self.in_time());
        let limit = self.settled_left;
        self.settled_left -= self.settle(limit, false)?;
        Ok(self.keep_rest()?)
    }

    /// Continues the cascades that the store has. Returns how many dependencies it has settled, at most `limit`.
    pub(crate) fn go_on(&mut self, limit: usize) -> Result<usize, Stop> {
        self.inputs_left = INPUT_BYTES_MAX;
        let kept = self.rows.cascades(limit)?;
        // Those that follow in the store come before what follows from these.
        let only_kept = kept.len() == limit;
        self.open.extend(kept.into_iter().map(|cascade| Open {
            cascade,
            is_kept: true,
        }));
        let settled = self.settle(limit, only_kept)?;
        self.keep_rest()?;
        Ok(settled)
    }

    /// Settles the first dependencies of the open cascades, breadth first. Returns how many.
    fn settle(&mut self, limit: usize, only_kept: bool) -> Result<usize, Stop> {
        let mut settled = 0;
        let mut results = Results::new();
        while settled < limit && self.inputs_left > 0 {
            let slice = SLICE.min(limit - settled);
            let first = self
                .open
                .iter()
                .take(slice)
                .take_while(|open| open.is_kept || !only_kept);
            let of: Vec<JobId> = first.map(|open| open.cascade.prerequisite).collect();
            if of.is_empty() {
                break;
            }
            let found = self.rows.dependencies(&of, slice)?;
            // The last may have more.
            let partial = found
                .last()
                .filter(|_| found.len() == slice)
                .map(|(prerequisite, _)| *prerequisite);
            let mut next = found.iter().peekable();
            let mut done = 0;
            let mut rests = false;
            for prerequisite in of {
                let Some(open) = self.open.front().copied() else {
                    break;
                };
                while let Some((_, dependent)) = next.next_if(|(of, _)| *of == prerequisite) {
                    done += 1;
                    let bytes = self.settle_one(open.cascade, *dependent, &mut results)?;
                    self.inputs_left = self.inputs_left.saturating_sub(bytes);
                    rests = bytes > 0 && (self.inputs_left == 0 || self.is_late());
                    if rests {
                        break;
                    }
                }
                if rests || partial == Some(prerequisite) {
                    break;
                }
                results.remove(&prerequisite);
                self.open.pop_front();
                if open.is_kept {
                    self.rows.end_cascade(prerequisite)?;
                }
            }
            self.rows.remove_dependencies(&found[..done])?;
            settled += done;
            if rests || self.is_late() {
                break;
            }
        }
        Ok(settled)
    }

    /// Returns how many bytes of inputs the dependent has got.
    fn settle_one(
        &mut self,
        cascade: Cascade,
        dependent: JobId,
        results: &mut Results,
    ) -> Result<usize, Stop> {
        let Some(job) = self.readable_job(dependent)? else {
            return Ok(0);
        };
        if !job.waits_for_jobs() {
            return Ok(0);
        }
        let (prerequisite, ended) = (cascade.prerequisite, cascade.ended);
        let (bytes, given) = self.give_inputs(&job, (prerequisite, ended), results)?;
        let input = match &given {
            Ok(()) => Input::PrerequisiteEnded(prerequisite, ended),
            Err(failure) => Input::InputFailed(failure),
        };
        let job = self.step(&job, &input)?;
        if job.state.is_terminal() {
            self.open.push_back(Open {
                cascade: Cascade::of(&job),
                is_kept: false,
            });
        }
        Ok(bytes)
    }

    /// Leaves what the batch has not settled to ticks.
    fn keep_rest(&mut self) -> Result<(), StoreError> {
        let rest = std::mem::take(&mut self.open);
        let new: Vec<Cascade> = rest
            .into_iter()
            .filter(|open| !open.is_kept)
            .map(|open| open.cascade)
            .collect();
        if new.is_empty() {
            return Ok(());
        }
        self.rows.keep_cascades(&new)
    }
}
