//! Turns ids into jobs of this host: claims, reads and checks the ids that were popped or left
//! behind, and renews the claims.

use std::collections::{BTreeMap, BTreeSet};

use host_core::time::Time;
use host_wire_kit::session::Moment;

use super::turns::TURN_KEPT_MS;
use super::{
    Acts, CLAIM_MS, Code, Command, Due, Ending, PARKED_MAX, POP_SECONDS, POPS_MAX, Phase, Purpose,
    REFUSED_PAUSE_MS, RENEW_EVERY_MS, Refusal, Script, Value, Via, Worker, WorkerAct, messages,
};
use crate::job::{self, FIELDS};

/// What is known of the work queue and the processing list.
#[derive(Debug, Default)]
pub(super) struct Intake {
    queue: Queue,
    /// How many pops without an answer there are. Each may return an id.
    pops_out: usize,
    /// Ids in the processing list that no host had when first seen, and the time when they were
    /// seen.
    orphans: BTreeMap<String, Time>,
}

/// The state of the work queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Queue {
    #[default]
    MayHaveMore,
    WasEmpty,
    /// Redis refuses pops; the next one waits until [`Due::Fill`].
    Refused,
}

impl Intake {
    pub(super) fn on_connected(&mut self) {
        self.queue = Queue::MayHaveMore;
    }

    pub(super) fn on_disconnected(&mut self) {
        self.pops_out = 0;
        self.orphans.clear();
    }

    /// Ends the pause after a refused pop.
    pub(super) fn pop_again(&mut self) {
        self.queue = Queue::WasEmpty;
    }

    /// Handles the answers to `count` pops, or to the one that waited.
    fn on_popped(&mut self, count: Option<usize>, values: &[Value]) {
        let all = values.iter().all(|value| matches!(value, Value::Data(_)));
        self.pops_out -= count.unwrap_or(0);
        if all {
            self.queue = Queue::MayHaveMore;
        } else if count.is_some() {
            self.queue = Queue::WasEmpty;
        }
    }
}

impl Worker {
    /// Takes more jobs if there is room.
    pub(super) fn pop(&mut self, todo: &mut Acts) {
        if !self.calls.is_connected() || self.intake.queue == Queue::Refused {
            return;
        }
        let parked = self.jobs.parked();
        let active = self.jobs.len() - parked;
        let pop_waits = self.calls.purposes().any(|it| *it == Purpose::PopWaiting);
        let out = self.intake.pops_out + usize::from(pop_waits);
        let room = self.config.concurrency.saturating_sub(active + out);
        if room == 0 || parked + out >= PARKED_MAX {
            return;
        }
        let (worker, side) = (&self.config.worker_id, self.config.pop_side);
        if self.intake.queue == Queue::MayHaveMore && self.intake.pops_out == 0 {
            let count = room.min(POPS_MAX);
            let pops = vec![messages::pop(worker, side); count];
            self.intake.pops_out = count;
            self.call(Purpose::Pop(count), pops, todo);
        } else if self.intake.queue == Queue::WasEmpty && !pop_waits {
            let pop = messages::pop_waiting(worker, side, POP_SECONDS);
            self.send(Purpose::PopWaiting, Via::Blocking, vec![pop], todo);
        }
    }

    /// Handles ids from `count` pops, or from the one that waited.
    pub(super) fn popped(
        &mut self,
        at: Moment,
        count: Option<usize>,
        values: &[Value],
        todo: &mut Acts,
    ) {
        self.intake.on_popped(count, values);
        let mut claims = Vec::new();
        for value in values {
            let id = match value {
                Value::Data(bytes) => String::from_utf8_lossy(bytes).into_owned(),
                Value::Error(_) => {
                    if self.intake.queue != Queue::Refused {
                        self.refused(at.now, Some(value), todo);
                    }
                    self.intake.queue = Queue::Refused;
                    let next = at.now.plus_ms(REFUSED_PAUSE_MS);
                    self.timers.arm_once(next, Due::Fill);
                    continue;
                }
                _ => continue,
            };
            if let Some(held) = self.jobs.get_mut(&id) {
                // This entry was found in the processing list before the answer to its pop came.
                if std::mem::take(&mut held.found) {
                    continue;
                }
                if matches!(
                    held.phase(),
                    Phase::Finishing(_) | Phase::Releasing(_) | Phase::Resting(_)
                ) {
                    held.again = true;
                } else {
                    // Both entries stay until the job ends: Redis may have forgotten the first.
                    let message = "the id was queued again while this host has the job";
                    let twice = Refusal::new(Code::JobTwice, message);
                    self.bury(id.as_bytes(), &twice, false, todo);
                }
            } else if self.is_valid(value, &id, todo) {
                self.jobs.add(id.clone(), false, false);
                claims.push(id);
            }
        }
        self.claim(claims, todo);
    }

    /// Handles the processing list. A job that no host has is taken only at the next check, because
    /// a host that lost its connection claims its jobs again as soon as it is back.
    pub(super) fn found(&mut self, now: Time, list: Option<&Value>, todo: &mut Acts) {
        let Some(Value::List(values)) = list else {
            return;
        };
        let mut claims = Vec::new();
        let mut orphans = BTreeMap::new();
        for value in values {
            let Value::Data(bytes) = value else { continue };
            let id = String::from_utf8_lossy(bytes).into_owned();
            if self.jobs.contains(&id) || !self.is_valid(value, &id, todo) {
                continue;
            }
            let since = self.intake.orphans.get(&id).copied().unwrap_or(now);
            let only_own = now.since_ms(since) < RENEW_EVERY_MS;
            self.jobs.add(id.clone(), true, only_own);
            orphans.insert(id.clone(), since);
            claims.push(id);
        }
        self.intake.orphans = orphans;
        self.claim(claims, todo);
    }

    /// Returns whether an entry is an id. Adds a dead letter if it is not.
    fn is_valid(&mut self, entry: &Value, id: &str, todo: &mut Acts) -> bool {
        if job::is_id(id) {
            return true;
        }
        let bytes = match entry {
            Value::Data(bytes) => bytes.as_slice(),
            _ => &[],
        };
        let found = format!("{} bytes", bytes.len());
        let refusal = Refusal::field(Code::Id, "id", "a UUID", &found);
        self.bury(bytes, &refusal, true, todo);
        false
    }

    pub(super) fn claim(&mut self, ids: Vec<String>, todo: &mut Acts) {
        let scripts = ids.iter().map(|id| self.claim_script(id)).collect();
        self.call(Purpose::Claim(ids), scripts, todo);
    }

    fn claim_script(&self, id: &str) -> Command {
        let config = &self.config;
        let only_own = self.jobs.phase(id) == Some(&Phase::Claiming { only_own: true });
        let mut args = vec![
            id.to_owned(),
            config.instance.clone(),
            CLAIM_MS.to_string(),
            messages::STOPS_SCANNED_MAX.to_string(),
            messages::flag(!only_own).to_owned(),
            FIELDS.len().to_string(),
        ];
        args.extend(FIELDS.map(|(field, _)| field.to_owned()));
        args.extend(FIELDS.map(|(_, bytes_max)| bytes_max.to_string()));
        let keys = vec![
            messages::job_key(id),
            messages::claim_key(id),
            messages::stop_queue(&config.worker_id),
        ];
        Command::script(Script::Claim, keys, args)
    }

    /// Handles the answer to a claim: whether the job belongs to this host, and its fields.
    /// It is void if the job left this host and came back before the answer, and its new claim was answered.
    pub(super) fn claimed(&mut self, at: Moment, id: String, value: &Value, todo: &mut Acts) {
        if !matches!(self.jobs.phase(&id), Some(Phase::Claiming { .. })) {
            return;
        }
        let fields = match value {
            Value::List(fields) => fields.as_slice(),
            _ => &[],
        };
        let refused = match fields.first().and_then(Value::text) {
            Some("claimed") => return self.read(at, &id, fields, todo),
            Some("held") => {
                // Another host has it, and removes it from the list when it has ended.
                if self.jobs.remove(&id).is_some_and(|held| !held.found) {
                    todo.push(WorkerAct::Count(Code::JobTwice.as_str()));
                }
                self.intake.orphans.remove(&id);
                return;
            }
            Some("free") => return self.free(id, todo),
            Some("missing") => Refusal::new(Code::JobMissing, "the job has no hash"),
            Some("no_hash") => Refusal::new(Code::JobType, "the job's key does not hold a hash"),
            // Its host has ended it since the list was read, or left the entry behind.
            Some("ended") if self.jobs.get(&id).is_some_and(|held| held.found) => {
                self.jobs.remove(&id);
                self.intake.orphans.remove(&id);
                let forget = messages::forget_processing(&self.config.worker_id, id.as_bytes());
                return self.call(Purpose::NothingFollows, vec![forget], todo);
            }
            Some("ended") => Refusal::new(Code::JobEnded, "the job has already ended"),
            _ => {
                return self.try_again(at.now, Some(value), Due::Claim(id), todo);
            }
        };
        self.jobs.remove(&id);
        self.bury(id.as_bytes(), &refused, true, todo);
    }

    /// Leaves a job that no host has for now, unless this host has popped it.
    fn free(&mut self, id: String, todo: &mut Acts) {
        if self.jobs.get(&id).is_some_and(|held| !held.found) {
            self.jobs
                .set_phase(&id, Phase::Claiming { only_own: false });
            self.claim(vec![id], todo);
        } else {
            self.jobs.remove(&id);
        }
    }

    fn read(&mut self, at: Moment, id: &str, fields: &[Value], todo: &mut Acts) {
        let stop = fields.get(1) == Some(&Value::Int(1));
        let read = job::read(id, fields.get(2..).unwrap_or_default(), &self.terms);
        let Some(held) = self.jobs.get_mut(id) else {
            return;
        };
        held.stop |= stop;
        match read {
            _ if self.stopping => self.give_back(at, id, todo),
            Err(refusal) => {
                todo.push(WorkerAct::Count(refusal.code()));
                self.finish(at, id, Ending::Error(refusal.text()), todo);
            }
            Ok(_) if held.stop => self.finish(at, id, Ending::stopped(), todo),
            Ok(job) => {
                held.attempt = job.attempt;
                held.job = Some(Box::new(job));
                self.read_stops_soon(at.now);
                self.admit(at, id, todo);
            }
        }
    }

    /// Renews claims and looks for jobs that another host left behind.
    pub(super) fn renew(&mut self, at: Moment, todo: &mut Acts) {
        // A job whose end is being written must not be claimed again afterwards; until then it is ours.
        let ending: BTreeSet<&String> = self
            .calls
            .purposes()
            .filter_map(|purpose| match purpose {
                Purpose::Finish(id) | Purpose::Release(id) => Some(id),
                _ => None,
            })
            .collect();
        let ids: Vec<String> = self
            .jobs
            .iter()
            .filter(|(id, held)| {
                !matches!(held.phase(), Phase::Claiming { .. }) && !ending.contains(id)
            })
            .map(|(id, _)| id.clone())
            .collect();
        let taken = ids.len();
        let (contexts, turns): (Vec<String>, Vec<String>) = ids
            .iter()
            .filter(|id| self.jobs.get(id).is_some_and(|held| held.has_turn))
            .filter_map(|id| Some((self.context_of(id)?, id.clone())))
            .unzip();
        let ids: Vec<String> = ids.into_iter().chain(ending.into_iter().cloned()).collect();
        if !ids.is_empty() {
            let numbers = [CLAIM_MS, taken as u64, ids.len() as u64, TURN_KEPT_MS];
            let args = numbers.iter().map(u64::to_string).chain(turns.clone());
            let keys = ids.iter().map(|id| messages::claim_key(id));
            let args = std::iter::once(self.config.instance.clone()).chain(args);
            let keys = keys.chain(contexts).collect();
            let script = Command::script(Script::Renew, keys, args);
            let ids = ids.into_iter().chain(turns).collect();
            self.call(Purpose::Renew(ids), vec![script], todo);
        }
        if !self.stopping {
            let list = messages::list_processing(&self.config.worker_id);
            self.call(Purpose::Recover, vec![list], todo);
            let count = messages::count_queued(&self.config.worker_id);
            self.call(Purpose::Depth, vec![count], todo);
        }
        let next = at.now.plus_ms(RENEW_EVERY_MS);
        self.timers.arm_once(next, Due::Renew);
    }

    /// Drops jobs that another host has taken, and those whose turn another job has.
    pub(super) fn renewed(&mut self, ids: &[String], lost: Option<&Value>, todo: &mut Acts) {
        let Some(Value::List(places)) = lost else {
            return;
        };
        for place in places {
            let Value::Int(place) = place else { continue };
            let place = usize::try_from(*place).unwrap_or_default();
            let Some(id) = place.checked_sub(1).and_then(|place| ids.get(place)) else {
                continue;
            };
            self.lose(id, todo);
        }
    }
}
