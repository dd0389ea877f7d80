//! The jobs that this host has taken for one worker id. Each is in one phase; only here does it change,
//! together with what follows from it: who runs, who is ready, and how many are parked.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use host_core::port::Tag;
use host_core::time::Time;

use super::{Ending, PopSide};
use crate::job::HeroJob;

/// One job that this host has taken.
#[derive(Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each is a fact of its own, in every phase"
)]
pub(super) struct HeldJob {
    phase: Phase,
    pub(super) job: Option<Box<HeroJob>>,
    pub(super) attempt: u32,
    /// How many times it has lost its cell.
    pub(super) losses: u32,
    /// Whether it has the turn of its context.
    pub(super) has_turn: bool,
    /// Whether the job must stop.
    pub(super) stop: bool,
    /// Whether it was found in the processing list. The answer to its pop may still follow.
    pub(super) found: bool,
    /// Whether it was popped again while its end was being written: we returned it to the queue, or
    /// its sender queued it again.
    pub(super) again: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// With `only_own`, it is taken only if an earlier run of this host had it.
    Claiming {
        only_own: bool,
    },
    /// Until these jobs have finished.
    Waiting(BTreeSet<String>),
    /// Until the jobs of its context that this host took before have ended.
    InLine,
    /// Until no other host has a job of its context running.
    Turn {
        is_asked: bool,
    },
    Ready,
    Running(Run),
    /// Until there is room for it.
    Crowded,
    /// Until its next attempt.
    Backoff,
    Finishing(Ending),
    /// Being returned to this end of its queue.
    Releasing(PopSide),
    /// Until Redis has confirmed that it rests: until this time of the wall clock.
    Resting(Time),
}

/// One attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) tag: Tag,
    pub(super) guest: Guest,
    /// When it began, until Redis has confirmed that it knows.
    pub(super) began: Option<Time>,
}

/// What the guest of a running job does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guest {
    /// It waits for room in a cell.
    Waits,
    /// It runs, and is stopped at this time if it has not ended.
    RunsUntil(Time),
    /// It was stopped because its time was over.
    Overran,
}

impl Phase {
    /// Returns whether the job waits for others, its context or its next attempt, so that it takes no
    /// slot.
    const fn is_parked(&self) -> bool {
        matches!(
            self,
            Self::Waiting(_) | Self::InLine | Self::Turn { .. } | Self::Backoff
        )
    }
}

impl HeldJob {
    pub(super) const fn phase(&self) -> &Phase {
        &self.phase
    }

    pub(super) fn run_mut(&mut self) -> Option<&mut Run> {
        match &mut self.phase {
            Phase::Running(run) => Some(run),
            _ => None,
        }
    }

    pub(super) fn timeout_ms(&self) -> u64 {
        self.job.as_ref().map_or(0, |job| job.timeout_ms)
    }

    /// Returns the context in which the job must run alone.
    pub(super) fn context(&self) -> Option<&str> {
        let job = self.job.as_ref().filter(|job| !job.concurrent)?;
        Some(&job.context_id)
    }
}

/// All jobs, by their ids.
#[derive(Debug, Default)]
pub(super) struct Jobs {
    held: BTreeMap<String, HeldJob>,
    /// The jobs that run.
    running: BTreeMap<Tag, String>,
    /// Those that became ready, in order. Some may no longer be.
    ready: VecDeque<String>,
    parked: usize,
    tags_made: u64,
}

impl Jobs {
    pub(super) fn len(&self) -> usize {
        self.held.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    /// Returns how many jobs run.
    pub(super) fn running(&self) -> usize {
        self.running.len()
    }

    /// Returns how many jobs wait for others, for their context or for their next attempt.
    pub(super) const fn parked(&self) -> usize {
        self.parked
    }

    pub(super) fn contains(&self, id: &str) -> bool {
        self.held.contains_key(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&String, &HeldJob)> {
        self.held.iter()
    }

    pub(super) fn get(&self, id: &str) -> Option<&HeldJob> {
        self.held.get(id)
    }

    pub(super) fn get_mut(&mut self, id: &str) -> Option<&mut HeldJob> {
        self.held.get_mut(id)
    }

    pub(super) fn phase(&self, id: &str) -> Option<&Phase> {
        Some(&self.held.get(id)?.phase)
    }

    /// Returns the job that runs as `tag`.
    pub(super) fn run(&self, tag: Tag) -> Option<&String> {
        self.running.get(&tag)
    }

    /// Returns the jobs that wait for others, each with those.
    pub(super) fn waiting(&self) -> impl Iterator<Item = (&String, &BTreeSet<String>)> {
        let waiting = self
            .held
            .iter()
            .take(if self.parked == 0 { 0 } else { usize::MAX });
        waiting.filter_map(|(id, held)| match &held.phase {
            Phase::Waiting(open) => Some((id, open)),
            _ => None,
        })
    }

    pub(super) fn is_waiting(&self, id: &str) -> bool {
        matches!(self.phase(id), Some(Phase::Waiting(_)))
    }

    /// Adds a job to claim.
    pub(super) fn add(&mut self, id: String, found: bool, only_own: bool) {
        let held = HeldJob {
            phase: Phase::Claiming { only_own },
            job: None,
            attempt: 1,
            losses: 0,
            has_turn: false,
            stop: false,
            found,
            again: false,
        };
        self.held.insert(id, held);
    }

    pub(super) fn remove(&mut self, id: &str) -> Option<HeldJob> {
        let held = self.held.remove(id)?;
        self.left(&held.phase);
        Some(held)
    }

    /// Moves a job to another phase, and returns the one before.
    pub(super) fn set_phase(&mut self, id: &str, phase: Phase) -> Option<Phase> {
        let held = self.held.get_mut(id)?;
        self.parked += usize::from(phase.is_parked());
        match &phase {
            Phase::Ready => self.ready.push_back(id.to_owned()),
            Phase::Running(run) => drop(self.running.insert(run.tag, id.to_owned())),
            _ => {}
        }
        let before = std::mem::replace(&mut held.phase, phase);
        self.left(&before);
        Some(before)
    }

    fn left(&mut self, phase: &Phase) {
        self.parked -= usize::from(phase.is_parked());
        if let Phase::Running(run) = phase {
            self.running.remove(&run.tag);
        }
    }

    /// Takes the job that has been ready longest.
    pub(super) fn next_ready(&mut self) -> Option<String> {
        loop {
            let id = self.ready.pop_front()?;
            if self.phase(&id) == Some(&Phase::Ready) {
                return Some(id);
            }
        }
    }

    /// Makes the tag of a new attempt.
    pub(super) const fn new_tag(&mut self) -> Tag {
        let tag = Tag(self.tags_made);
        self.tags_made += 1;
        tag
    }

    /// Removes a finished job from those that others wait for. Returns the jobs that waited for it, each
    /// with whether it still waits for others.
    pub(super) fn dependency_ended(&mut self, ended: &str) -> Vec<(String, bool)> {
        if self.parked == 0 {
            return Vec::new();
        }
        let waited = self.held.iter_mut().filter_map(|(id, held)| {
            let Phase::Waiting(open) = &mut held.phase else {
                return None;
            };
            open.remove(ended).then(|| (id.clone(), !open.is_empty()))
        });
        waited.collect()
    }

    /// Asks for all turns anew.
    pub(super) fn forget_asked(&mut self) {
        for held in self.held.values_mut() {
            if let Phase::Turn { is_asked } = &mut held.phase {
                *is_asked = false;
            }
        }
    }

    /// Takes the jobs whose turn is to be asked for.
    pub(super) fn ask(&mut self) -> Vec<String> {
        let mut unasked = Vec::new();
        for (id, held) in &mut self.held {
            if let Phase::Turn { is_asked } = &mut held.phase
                && !std::mem::replace(is_asked, true)
            {
                unasked.push(id.clone());
            }
        }
        unasked
    }
}
