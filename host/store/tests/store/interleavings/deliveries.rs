//! The deliveries of a history: each end of a job that has receivers once, and to each receiver in their order.

use std::collections::BTreeMap;

use host_core::id::JobId;
use host_core::job::State;
use host_core::notify::{Event, JOB_EVENTS, Notify};
use host_core::query::Change;
use host_engine::Reader;
use host_engine::webhook::{Delivery, WEBHOOKS};

use crate::webhooks::notify;

/// The receivers of a new job: none, one, or a second one that wants only some events.
pub(super) fn receivers(n: u128) -> Vec<Notify> {
    let some = Notify {
        url: "https://b.example/hook".to_owned(),
        ..notify(&[Event::JobDiscarded])
    };
    match n % 4 {
        0 => vec![some, notify(&JOB_EVENTS)],
        2 => vec![notify(&JOB_EVENTS)],
        _ => Vec::new(),
    }
}

/// The deliveries to one receiver about one job or batch: whether it is a job, its id and the URL.
type Line = (bool, String, String);

/// The ends of jobs with receivers, and the deliveries.
#[derive(Default)]
pub(super) struct DeliveryHistory {
    ends: BTreeMap<JobId, (Vec<Notify>, Vec<String>)>,
    /// The deliveries of each line with their events, oldest first.
    lines: BTreeMap<Line, Vec<(JobId, String)>>,
    line_of: BTreeMap<JobId, Line>,
    states: BTreeMap<JobId, State>,
}

impl DeliveryHistory {
    /// Records the changes of a commit. No delivery may be available before the one before it in its line has ended.
    pub(super) fn record(&mut self, reader: &dyn Reader, changes: &[Change]) {
        for change in changes {
            let Some(to) = change.to else {
                continue;
            };
            if change.queue.as_str() == WEBHOOKS {
                self.record_delivery(reader, change, to);
                continue;
            }
            if change.from.is_none()
                && let Some(detail) = reader.job(change.job).unwrap()
            {
                let notify = detail.lifecycle.notify.into_iter().map(|it| it.notify);
                let new = (notify.collect(), Vec::new());
                self.ends.insert(change.job, new);
            }
            let was_over = change.from.is_some_and(State::is_terminal);
            if let Some((_, ends)) = self.ends.get_mut(&change.job)
                && to.is_terminal()
                && !was_over
            {
                ends.push(format!("job.{}", to.as_str()));
            }
        }
    }

    fn record_delivery(&mut self, reader: &dyn Reader, change: &Change, to: State) {
        let id = change.job;
        if change.from.is_none() {
            let payload = reader.job(id).unwrap().unwrap().payload;
            let Delivery { url, .. } = serde_json::from_str(payload.params.as_str()).unwrap();
            let [(kind, about), (_, event)] = &payload.attributes[..] else {
                panic!("{:?}", payload.attributes);
            };
            let line = (kind == "job", about.clone(), url);
            self.line_of.insert(id, line.clone());
            let line = self.lines.entry(line).or_default();
            line.push((id, event.clone()));
        }
        self.states.insert(id, to);
        if matches!(to, State::Available | State::Running) {
            let line = &self.lines[&self.line_of[&id]];
            for (before, _) in line.iter().take_while(|(it, _)| *it != id) {
                assert!(self.states[before].is_terminal(), "{line:?}");
            }
        }
    }

    /// Checks that each end was delivered once, in order, and each event of a batch at most once.
    pub(super) fn check(mut self) {
        for (job, (receivers, ends)) in self.ends {
            for receiver in receivers {
                let events: Vec<&str> =
                    receiver.events.iter().map(|event| event.as_str()).collect();
                let wanted = ends.iter().filter(|end| events.contains(&&***end));
                let line = self.lines.remove(&(true, job.to_string(), receiver.url));
                let delivered: Vec<String> = line.into_iter().flatten().map(|it| it.1).collect();
                assert_eq!(
                    delivered.iter().collect::<Vec<_>>(),
                    wanted.collect::<Vec<_>>()
                );
            }
        }
        for line in self.lines.into_values() {
            let mut events: Vec<&str> = line.iter().map(|(_, event)| &**event).collect();
            events.sort_unstable();
            events.dedup();
            assert_eq!(events.len(), line.len(), "{line:?}");
        }
    }
}
