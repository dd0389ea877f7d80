//! Contexts in which one job runs at a time, over all worker ids and hosts: the jobs of this host wait
//! in a line, and the first asks Redis for the turn. The turn belongs to a job as long as a host has
//! a claim on that.

use std::collections::BTreeSet;

use super::{
    Command, Due, Phase, Purpose, REFUSED_PAUSE_MS, Script, Todo, Value, Worker, messages,
};
use crate::kit::session::Moment;

/// How often to ask for a turn that another host has, in milliseconds.
const ASK_EVERY_MS: u64 = 250;

/// How long a turn is remembered after its host was last heard of, in milliseconds. A host that comes
/// back within this time knows whether another job had the turn since.
pub(super) const TURN_KEPT_MS: u64 = 3_600_000;

/// The jobs that ask for the turn of their context.
#[derive(Debug, Default)]
pub(super) struct Turns {
    waiting: BTreeSet<String>,
    /// Those to ask for now.
    unasked: BTreeSet<String>,
}

impl Turns {
    /// Returns how many jobs wait for a turn.
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Asks for all turns at the next occasion.
    pub(super) fn ask_all(&mut self) {
        self.unasked.clone_from(&self.waiting);
    }

    fn add(&mut self, id: &str) {
        self.waiting.insert(id.to_owned());
        self.unasked.insert(id.to_owned());
    }

    fn remove(&mut self, id: &str) {
        self.waiting.remove(id);
        self.unasked.remove(id);
    }
}

impl Worker {
    /// Returns the key of the context of a job that runs alone there.
    pub(super) fn context_of(&self, id: &str) -> Option<String> {
        let job = self.jobs.get(id)?.job.as_ref()?;
        (!job.concurrent).then(|| messages::context_key(&job.context_id))
    }

    /// Makes a job ready, or puts it in the line of its context.
    pub(super) fn enter_context(&mut self, id: String) {
        let Some(held) = self.jobs.get_mut(&id) else {
            return;
        };
        let alone = held.job.as_ref().filter(|job| !job.concurrent);
        let Some(context) = alone.map(|job| job.context_id.clone()) else {
            held.phase = Phase::Ready;
            return self.ready.push_back(id);
        };
        held.phase = Phase::Parked;
        let line = self.contexts.entry(context).or_default();
        line.push_back(id.clone());
        if line.len() == 1 {
            self.want_turn(&id);
        }
    }

    fn want_turn(&mut self, id: &str) {
        if let Some(held) = self.jobs.get_mut(id) {
            held.phase = Phase::Turn;
            self.turns.add(id);
        }
    }

    /// Asks Redis for turns.
    pub(super) fn ask_for_turns(&mut self, todo: &mut Todo) {
        if !self.connected || self.turns.unasked.is_empty() {
            return;
        }
        let unasked = std::mem::take(&mut self.turns.unasked);
        let ask = |id: String| {
            let command = Command::Script {
                script: Script::Turn,
                keys: vec![self.context_of(&id)?, messages::claim_key(&id)],
                args: vec![
                    self.config.instance.clone().into_bytes(),
                    id.clone().into_bytes(),
                    TURN_KEPT_MS.to_string().into_bytes(),
                ],
            };
            Some((id, command))
        };
        let (ids, commands) = unasked.into_iter().filter_map(ask).unzip();
        self.call(Purpose::Turns(ids), commands, todo);
    }

    /// Handles who has the turns that were asked for.
    pub(super) fn turned(&mut self, at: Moment, ids: &[String], values: &[Value], todo: &mut Todo) {
        for (id, value) in ids.iter().zip(values) {
            let Some(held) = self.jobs.get_mut(id).filter(|it| it.phase == Phase::Turn) else {
                continue;
            };
            match value.text() {
                Some("taken") => {
                    held.phase = Phase::Ready;
                    held.has_turn = true;
                    self.turns.remove(id);
                    self.ready.push_back(id.clone());
                }
                Some("lost") => self.lose(id, todo),
                Some(other) => {
                    self.let_go_first(id, other);
                    self.arm_once(at.now.plus_ms(ASK_EVERY_MS), Due::Turns);
                }
                None => {
                    self.refused(at.now, Some(value), todo);
                    self.arm_once(at.now.plus_ms(REFUSED_PAUSE_MS), Due::Turns);
                }
            }
        }
    }

    /// Lets the job that has the turn go first if it waits in the same line: it had the turn in an
    /// earlier run of this host.
    fn let_go_first(&mut self, id: &str, other: &str) {
        let job = self.jobs.get(id).and_then(|held| held.job.as_ref());
        let Some(line) = job.and_then(|job| self.contexts.get_mut(&job.context_id)) else {
            return;
        };
        let Some(place) = line.iter().position(|waiting| waiting == other) else {
            return;
        };
        line.swap(0, place);
        if let Some(held) = self.jobs.get_mut(id) {
            held.phase = Phase::Parked;
        }
        self.turns.remove(id);
        self.want_turn(other);
    }

    /// Removes a job from all waiting lists, and lets the next job of its context ask for the turn.
    pub(super) fn leave_lines(&mut self, id: &str) {
        self.waiting.remove(id);
        self.resting.remove(id);
        self.turns.remove(id);
        let job = self.jobs.get(id).and_then(|held| held.job.as_ref());
        let Some(context) = job
            .filter(|job| !job.concurrent)
            .map(|job| job.context_id.clone())
        else {
            return;
        };
        let Some(line) = self.contexts.get_mut(&context) else {
            return;
        };
        let first = line.front().is_some_and(|front| front == id);
        line.retain(|other| other != id);
        let next = line.front().filter(|_| first).cloned();
        if line.is_empty() {
            self.contexts.remove(&context);
        }
        if let Some(next) = next {
            self.want_turn(&next);
        }
    }
}
