//! Suspects: which jobs run apart after lost workers, and in groups of which size. One job that ends its workers is
//! found by halving: whatever was in flight at two losses runs apart from all other jobs, and each further loss halves
//! the group in which it runs next.

use serde::{Deserialize, Serialize};

/// How often the largest group of suspects can be halved.
const HALVINGS: u8 = 5;

/// The largest group of suspects.
pub const GROUP_JOBS_MAX: usize = 1 << HALVINGS;

/// A job is poison when this many cells have died while it was alone in them.
pub(crate) const LONE_DEATHS_MAX: u8 = 3;

/// After how many losses a job runs apart. Before, nothing but one loss connects it with the cause.
const APART: u8 = 2;

/// From how many losses on it runs alone: each loss before has halved the group.
const ALONE: u8 = APART + HALVINGS;

/// From how many losses on it is poison.
const POISON: u8 = ALONE + LONE_DEATHS_MAX;

/// What is known against a job since its latest outcome: how many workers were lost while they had it. A loss that
/// leaves fewer jobs to suspect than usual counts for several.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Suspicion(u8);

impl Suspicion {
    /// Nothing.
    pub const NONE: Self = Self(0);

    /// Returns the suspicion after the loss of a worker that had `jobs` jobs, this one included.
    #[must_use]
    pub fn after_loss(self, jobs: usize) -> Self {
        let next = self.0.saturating_add(1);
        Self(match jobs {
            0 | 1 => next.clamp(ALONE + 1, POISON),
            _ if self == Self::NONE => next,
            _ => {
                let half = jobs.div_ceil(2).min(GROUP_JOBS_MAX);
                let halvings_left = u8::try_from(half.ilog2()).unwrap_or(0);
                next.max(ALONE - halvings_left).min(ALONE).max(self.0)
            }
        })
    }

    /// Returns whether the job is a suspect, which runs apart from jobs that are not suspects.
    pub const fn is_apart(self) -> bool {
        self.0 >= APART
    }

    /// Returns how many suspects may be at one worker with this one, itself included. `None` if it is not a suspect.
    fn group_max(self) -> Option<usize> {
        let halvings = self.0.checked_sub(APART)?;
        let group = GROUP_JOBS_MAX.checked_shr(halvings.into()).unwrap_or(0);
        Some(group.max(1))
    }

    /// Returns whether it has ended so many cells alone that it is discarded.
    pub(crate) const fn is_poison(self) -> bool {
        self.0 >= POISON
    }
}

/// A group of suspects that is being put together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Group {
    jobs: usize,
    /// The least [`Suspicion::group_max`] of its jobs.
    jobs_max: usize,
}

impl Group {
    /// Returns whether no suspect was added.
    pub const fn is_empty(self) -> bool {
        self.jobs == 0
    }

    /// Adds a suspect if the group has room for it, as far as each of its jobs allows. Returns whether it has.
    pub fn add(&mut self, suspicion: Suspicion) -> bool {
        let Some(group_max) = suspicion.group_max() else {
            return false;
        };
        let jobs_max = if self.jobs == 0 {
            group_max
        } else {
            group_max.min(self.jobs_max)
        };
        let has_room = self.jobs < jobs_max;
        if has_room {
            *self = Self {
                jobs: self.jobs + 1,
                jobs_max,
            };
        }
        has_room
    }
}

/// Puts suspects into groups: each into the first that has room.
#[derive(Clone, Debug)]
pub struct Groups(Vec<Group>);

impl Groups {
    /// Makes this many empty groups.
    pub fn new(groups: usize) -> Self {
        Self(vec![Group::default(); groups])
    }

    /// Returns the group for a suspect. `None` if no group has room. Callers that ask for the same suspects in the same
    /// order, with or without those that had no room, get the same groups.
    pub fn add(&mut self, suspicion: Suspicion) -> Option<usize> {
        self.0.iter_mut().position(|group| group.add(suspicion))
    }
}

#[cfg(test)]
mod tests;
