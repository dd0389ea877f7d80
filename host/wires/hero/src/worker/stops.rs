//! Stop requests: reads them from the stop queue, stops our jobs, and removes requests that are no
//! longer needed.

use std::collections::BTreeMap;

use host_core::time::Time;
use host_wire_kit::session::Moment;

use super::{
    Acts, Due, Ending, GRACE_MS, Phase, Purpose, Stop, Value, Worker, WorkerAct, messages,
};
use crate::job;

/// How often the stop queue is read while this host has jobs, in milliseconds.
const READ_EVERY_MS: u64 = 100;

/// How often it is read while this host has no jobs, in milliseconds.
const READ_IDLE_MS: u64 = 5_000;

/// How long a request for a job without a hash is kept, in milliseconds, because its sender may be
/// about to store it. Also how often the hash of one that is not here is read.
const UNKNOWN_KEPT_MS: u64 = 600_000;

/// Requests for jobs that are not here, and when the hash of each was first read, or was last
/// seen.
#[derive(Debug, Default)]
pub(super) struct Stops(BTreeMap<String, Time>);

impl Stops {
    pub(super) fn contains(&self, id: &str) -> bool {
        self.0.contains_key(id)
    }
}

impl Worker {
    pub(super) fn read_stops(&mut self, now: Time, todo: &mut Acts) {
        let list = messages::list_stops(&self.config.worker_id);
        self.call(Purpose::Stops, vec![list], todo);
        let every_ms = if self.jobs.is_empty() {
            READ_IDLE_MS
        } else {
            READ_EVERY_MS
        };
        self.timers.arm_once(now.plus_ms(every_ms), Due::Stops);
    }

    /// Reads the stop queue sooner, because this host has jobs now.
    pub(super) fn read_stops_soon(&mut self, now: Time) {
        self.timers.hasten(now.plus_ms(READ_EVERY_MS), &Due::Stops);
    }

    /// Handles the stop queue.
    pub(super) fn stops_listed(&mut self, at: Moment, list: Option<&Value>, todo: &mut Acts) {
        let mut counts: BTreeMap<&[u8], usize> = BTreeMap::new();
        if let Some(Value::List(entries)) = list {
            for entry in entries {
                if let Value::Data(id) = entry {
                    *counts.entry(id).or_default() += 1;
                }
            }
        }
        let stops = &mut self.stops.0;
        stops.retain(|id, _| counts.contains_key(id.as_bytes()));
        let worker = self.config.worker_id.clone();
        let (mut forget, mut ask) = (Vec::new(), Vec::new());
        for (entry, count) in counts {
            let id = std::str::from_utf8(entry).ok();
            let Some(id) = id.filter(|id| job::is_id(id)) else {
                forget.push(messages::forget_stop(&worker, entry, count));
                continue;
            };
            if self.jobs.contains(id) {
                self.stop_job(at, id, todo);
            } else {
                let since = self.stops.0.get(id).copied();
                if since.is_none_or(|since| at.now.since_ms(since) >= UNKNOWN_KEPT_MS) {
                    self.stops.0.entry(id.to_owned()).or_insert(at.now);
                    ask.push((id.to_owned(), count));
                }
            }
        }
        self.call(Purpose::NothingFollows, forget, todo);
        let reads = ask
            .iter()
            .flat_map(|(id, _)| [messages::status_of(id), messages::kind_of(id)])
            .collect();
        self.call(Purpose::StopStatuses(ask), reads, todo);
    }

    /// Removes requests for jobs that have ended, and for those that have had no hash for some time.
    /// Removes only as many as were seen, because the rest of the list may be long.
    pub(super) fn stop_statuses(
        &mut self,
        now: Time,
        asked: &[(String, usize)],
        values: &[Value],
        todo: &mut Acts,
    ) {
        let mut forget = Vec::new();
        for ((id, count), answers) in asked.iter().zip(values.chunks(2)) {
            if self.jobs.contains(id) {
                continue;
            }
            let [status, kind] = answers else { continue };
            let ended = matches!(status.text(), Some("finished" | "error"));
            let since = self.stops.0.get(id).copied().unwrap_or(now);
            match kind.text() {
                Some("none") if now.since_ms(since) < UNKNOWN_KEPT_MS => continue,
                Some("none") => {}
                _ if ended => {}
                _ => {
                    // It is queued, rests, or another host has it: the request holds, and is found with the job.
                    self.stops.0.insert(id.clone(), now);
                    forget.push(messages::wake_one(&self.config.worker_id, id));
                    continue;
                }
            }
            self.stops.0.remove(id);
            let worker = &self.config.worker_id;
            forget.push(messages::forget_stop(worker, id.as_bytes(), *count));
        }
        self.call(Purpose::NothingFollows, forget, todo);
    }

    fn stop_job(&mut self, at: Moment, id: &str, todo: &mut Acts) {
        let Some(held) = self.jobs.get_mut(id) else {
            return;
        };
        let again = std::mem::replace(&mut held.stop, true);
        match held.phase() {
            Phase::Running(run) if !again => todo.push(WorkerAct::Stop {
                tag: run.tag,
                grace_ms: GRACE_MS,
                why: Stop::Cancelled,
            }),
            Phase::Waiting(_)
            | Phase::InLine
            | Phase::Turn { .. }
            | Phase::Ready
            | Phase::Crowded
            | Phase::Backoff => self.finish(at, id, Ending::stopped(), todo),
            Phase::Running(_)
            | Phase::Claiming { .. }
            | Phase::Finishing(_)
            | Phase::Releasing(_)
            | Phase::Resting(_) => {}
        }
    }
}
