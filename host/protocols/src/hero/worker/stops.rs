//! Stop requests: found in the stop queue, passed on to jobs of ours, and removed when nobody needs
//! them any more.

use std::collections::BTreeMap;

use host_core::time::Time;

use super::{Due, Ending, Phase, Purpose, Stop, Todo, Value, Worker, WorkerAct, wire};
use crate::hero::job;
use crate::session::Moment;

/// How often the stop queue is looked at while there are jobs, in milliseconds.
const LOOK_EVERY_MS: u64 = 100;

/// The same while there are none, in milliseconds.
const LOOK_IDLE_MS: u64 = 5_000;

/// How long a request for a job that is not here is kept, in milliseconds: it may be queued still.
const UNKNOWN_KEPT_MS: u64 = 600_000;

/// Requests that were seen for jobs that are not here, and since when.
#[derive(Debug, Default)]
pub(super) struct Stops(BTreeMap<String, Time>);

impl Stops {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }
}

impl Worker {
    pub(super) fn look_for_stops(&mut self, now: Time, todo: &mut Todo) {
        let list = wire::list_stops(&self.config.worker_id);
        self.call(Purpose::Stops, vec![list], todo);
        let every_ms = if self.jobs.is_empty() {
            LOOK_IDLE_MS
        } else {
            LOOK_EVERY_MS
        };
        self.arm_once(now.plus_ms(every_ms), Due::Stops);
    }

    /// Looks sooner, for there are jobs now.
    pub(super) fn look_for_stops_soon(&mut self, now: Time) {
        let soon = now.plus_ms(LOOK_EVERY_MS);
        let armed = self.due.iter().find(|(_, due)| *due == Due::Stops).cloned();
        if let Some(armed) = armed.filter(|(at, _)| *at > soon) {
            self.due.remove(&armed);
            self.arm(soon, Due::Stops);
        }
    }

    /// Takes in which jobs are to stop.
    pub(super) fn stops_listed(&mut self, at: Moment, list: Option<&Value>, todo: &mut Todo) {
        let ids = list.map(Value::texts).unwrap_or_default();
        self.stops.0.retain(|id, _| ids.contains(id));
        let worker = self.config.worker_id.clone();
        let (mut forget, mut ask) = (Vec::new(), Vec::new());
        for id in ids {
            if self.jobs.contains_key(&id) {
                self.stop_job(at, &id, todo);
            } else if !job::is_id(&id) {
                forget.push(wire::forget_stop(&worker, &id));
            } else if let Some(since) = self.stops.0.get(&id) {
                if at.now.since_ms(*since) >= UNKNOWN_KEPT_MS {
                    forget.push(wire::forget_stop(&worker, &id));
                }
            } else {
                self.stops.0.insert(id.clone(), at.now);
                ask.push(id);
            }
        }
        self.call(Purpose::Told, forget, todo);
        let statuses = ask.iter().map(|id| wire::status_of(id)).collect();
        self.call(Purpose::StopStatuses(ask), statuses, todo);
    }

    /// Removes requests for jobs that have ended.
    pub(super) fn stop_statuses(&mut self, ids: &[String], values: &[Value], todo: &mut Todo) {
        let worker = self.config.worker_id.clone();
        let ended = ids.iter().zip(values).filter(|(id, value)| {
            matches!(value.text(), Some("finished" | "error")) && !self.jobs.contains_key(*id)
        });
        let forget = ended
            .map(|(id, _)| wire::forget_stop(&worker, id))
            .collect();
        self.call(Purpose::Told, forget, todo);
    }

    fn stop_job(&mut self, at: Moment, id: &str, todo: &mut Todo) {
        let grace_ms = self.config.grace_ms;
        let Some(held) = self.jobs.get_mut(id) else {
            return;
        };
        let again = std::mem::replace(&mut held.stop, true);
        match &held.phase {
            Phase::Running { tag, .. } if !again => todo.push(WorkerAct::Stop {
                tag: *tag,
                grace_ms,
                why: Stop::Cancelled,
            }),
            Phase::Waiting(_) | Phase::Parked | Phase::Ready | Phase::Backoff => {
                self.finish(at, id, Ending::stopped(), todo);
            }
            Phase::Running { .. } | Phase::Claiming | Phase::Finishing(_) | Phase::Releasing => {}
        }
    }
}
