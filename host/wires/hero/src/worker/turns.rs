//! Contexts in which one job runs at a time, over all worker ids and hosts: the jobs of this host wait
//! in a line, and the first asks Redis for the turn. The turn belongs to a job as long as a host has
//! a claim on that.

use std::collections::{BTreeMap, VecDeque};

use host_wire_kit::session::Moment;

use super::{Acts, Command, Due, Phase, Purpose, Script, Value, Worker, messages};

/// How often to ask for a turn that another host has, in milliseconds.
const ASK_EVERY_MS: u64 = 250;

/// How long a turn is remembered after the last sign of its host, in milliseconds. A host that comes
/// back within this time knows whether another job had the turn since.
pub(super) const TURN_KEPT_MS: u64 = 3_600_000;

/// The lines of jobs of this host that run alone in their context. The first of each has its turn or
/// asks for it.
#[derive(Debug, Default)]
pub(super) struct Contexts {
    lines: BTreeMap<String, VecDeque<String>>,
    /// Whether there may be turns to ask for.
    is_asking: bool,
}

impl Contexts {
    /// Adds a job to a line. Returns whether it is the first.
    fn enter(&mut self, context: &str, id: &str) -> bool {
        let line = self.lines.entry(context.to_owned()).or_default();
        line.push_back(id.to_owned());
        line.len() == 1
    }

    /// Removes a job from a line. Returns the job that is the first in its place.
    fn leave(&mut self, context: &str, id: &str) -> Option<String> {
        let line = self.lines.get_mut(context)?;
        let first = line.front().is_some_and(|front| front == id);
        line.retain(|other| other != id);
        let next = line.front().filter(|_| first).cloned();
        if line.is_empty() {
            self.lines.remove(context);
        }
        next
    }

    /// Lets another job of a line change places with the first. Returns whether it is in it.
    fn let_go_first(&mut self, context: &str, other: &str) -> bool {
        let line = self.lines.get_mut(context);
        let place = line
            .as_ref()
            .and_then(|line| line.iter().position(|id| id == other));
        if let (Some(line), Some(place)) = (line, place) {
            line.swap(0, place);
        }
        place.is_some()
    }
}

impl Worker {
    /// Returns the key of the context of a job that runs alone there.
    pub(super) fn context_of(&self, id: &str) -> Option<String> {
        self.jobs.get(id)?.context().map(messages::context_key)
    }

    /// Makes a job ready, or puts it in the line of its context.
    pub(super) fn enter_context(&mut self, id: &str) {
        let context = self.jobs.get(id).and_then(|held| held.context());
        let Some(context) = context.map(str::to_owned) else {
            self.jobs.set_phase(id, Phase::Ready);
            return;
        };
        if self.contexts.enter(&context, id) {
            self.want_turn(id);
        } else {
            self.jobs.set_phase(id, Phase::InLine);
        }
    }

    fn want_turn(&mut self, id: &str) {
        self.contexts.is_asking = true;
        self.jobs.set_phase(id, Phase::Turn { is_asked: false });
    }

    /// Asks for all turns at the next occasion.
    pub(super) fn ask_for_all_turns(&mut self) {
        self.contexts.is_asking = true;
        self.jobs.forget_asked();
    }

    /// Asks Redis for turns.
    pub(super) fn ask_for_turns(&mut self, todo: &mut Acts) {
        if !self.calls.is_connected() || !std::mem::take(&mut self.contexts.is_asking) {
            return;
        }
        let unasked = self.jobs.ask();
        let ask = |id: String| {
            let keys = vec![self.context_of(&id)?, messages::claim_key(&id)];
            let kept_ms = TURN_KEPT_MS.to_string();
            let args = [self.config.instance.as_str(), &id, &kept_ms];
            let command = Command::script(Script::Turn, keys, args);
            Some((id, command))
        };
        let (ids, commands) = unasked.into_iter().filter_map(ask).unzip();
        self.call(Purpose::Turns(ids), commands, todo);
    }

    /// Handles who has the turns that were asked for.
    pub(super) fn turned(&mut self, at: Moment, ids: &[String], values: &[Value], todo: &mut Acts) {
        for (id, value) in ids.iter().zip(values) {
            let held = self.jobs.get_mut(id);
            let Some(held) = held.filter(|it| matches!(it.phase(), Phase::Turn { .. })) else {
                continue;
            };
            match value.text() {
                Some("taken") => {
                    held.has_turn = true;
                    self.jobs.set_phase(id, Phase::Ready);
                }
                Some("lost") => self.lose(id, todo),
                Some(other) => {
                    self.let_go_first(id, other);
                    let next = at.now.plus_ms(ASK_EVERY_MS);
                    self.timers.arm_once(next, Due::Turns);
                }
                None => self.try_again(at.now, Some(value), Due::Turns, todo),
            }
        }
    }

    /// Lets the job that has the turn go first if it waits in the same line: it had the turn in an
    /// earlier run of this host.
    fn let_go_first(&mut self, id: &str, other: &str) {
        let context = self.jobs.get(id).and_then(|held| held.context());
        if context.is_some_and(|context| self.contexts.let_go_first(context, other)) {
            self.jobs.set_phase(id, Phase::InLine);
            self.want_turn(other);
        }
    }

    /// Removes a job from the line of its context, and lets the next one ask for the turn.
    pub(super) fn leave_line(&mut self, id: &str) {
        let context = self.jobs.get(id).and_then(|held| held.context());
        let next = context.and_then(|context| self.contexts.leave(context, id));
        if let Some(next) = next {
            self.want_turn(&next);
        }
    }
}
