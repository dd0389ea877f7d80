//! One stream of events: first the changes that were missed, from the store, then what happens.

use std::collections::VecDeque;
use std::sync::Arc;

use host_api::event::{EventsQuery, GapView};
use host_core::id::JobId;
use host_core::job::State;
use host_core::query::NumberedChange;
use host_core::time::Time;
use host_dispatch::Dispatch;
use host_dispatch::events::{Event, EventKind};
use host_http::gate::Caller;
use tokio::sync::OwnedSemaphorePermit;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

use super::{is_visible, is_wanted, put, write};
use crate::api::Shared;
use crate::api::error::ApiError;
use crate::api::problem::kinds;
use crate::api::scoped::{scope, sees_job};

/// How long a stream is silent before a comment shows that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);

/// The pause between two hints to a listener.
const HINT_EVERY: Duration = Duration::from_secs(2);

/// How often a listener to a running job gets a hint: log lines are not events.
const LOG_EVERY: Duration = Duration::from_secs(3);

/// A hint.
const HINT: &str = "event: changed\ndata:\n\n";

/// How many missed changes are read from the store at a time.
const CHANGES_READ: u32 = 1_000;

/// The right to be open: among all streams, and among those of the caller if it has a share.
pub(super) type Permits = (OwnedSemaphorePermit, Option<OwnedSemaphorePermit>);

pub(super) struct Listener {
    dispatch: Dispatch,
    receiver: Receiver<Arc<Vec<Event>>>,
    stopping: CancellationToken,
    caller: Caller,
    query: EventsQuery,
    /// The number of the last change that was sent or left out.
    last: u64,
    /// Whether changes after `last` must be read from the store.
    behind: bool,
    /// Whether the job that is listened to has ended.
    ended: bool,
    ready: VecDeque<String>,
    /// When something was sent last, and how long to be silent after that.
    sent: Instant,
    silence: Duration,
    /// Set after a hint: the next one waits.
    hinted: bool,
    _permits: Permits,
}

impl Listener {
    /// Opens a stream of what happens after the change with the number `after`, or from now on.
    pub(super) async fn open(
        shared: &Shared,
        (caller, query): (Caller, EventsQuery),
        after: Option<u64>,
        permits: Permits,
    ) -> Result<Self, ApiError> {
        let dispatch = shared.api.dispatch.clone();
        // What is published after this is received, and what was committed before it is in the store.
        let receiver = dispatch.shared().events.listen();
        let kept = dispatch.read(|reader| reader.changes(u64::MAX, 0)).await?;
        let newest = kept.next.saturating_sub(1);
        let last = after.map_or(newest, |after| after.min(newest));
        // Tells the listener that it receives everything after this, also if it comes back before the first event.
        let mut ready = VecDeque::from([format!(": listening\nid: {last}\n\n")]);
        if after.is_some_and(|after| after > newest) {
            ready.push_back(gap(newest, None));
        }
        let mut listener = Self {
            dispatch,
            receiver,
            stopping: shared.api.stopping.clone(),
            caller,
            query,
            last,
            behind: last < newest,
            ended: false,
            ready,
            sent: Instant::now(),
            silence: KEEP_ALIVE,
            hinted: false,
            _permits: permits,
        };
        if let Some(job) = listener.query.job {
            let mut state = listener.state(job).await?;
            if !sees_job(shared, &listener.caller, job).await? {
                state = None;
            }
            let state = state.ok_or_else(|| {
                ApiError::new(&kinds::JOB_NOT_FOUND, format!("no job has the id {job}"))
            })?;
            listener.expect_lines(state == State::Running);
            listener.ended = state.is_terminal() && !listener.behind;
        }
        Ok(listener)
    }

    async fn state(&self, job: JobId) -> Result<Option<State>, ApiError> {
        Ok(self.dispatch.read(move |reader| reader.state(job)).await?)
    }

    /// Returns the next piece of the stream, `None` at its end.
    pub(super) async fn next(&mut self) -> Option<String> {
        let piece = self.piece().await?;
        self.sent = Instant::now();
        Some(piece)
    }

    async fn piece(&mut self) -> Option<String> {
        loop {
            if let Some(text) = self.ready.pop_front() {
                return Some(text);
            }
            if std::mem::take(&mut self.hinted) && !self.ended {
                // What happens until then waits for the next hint.
                let pause = tokio::time::sleep(HINT_EVERY);
                self.stopping.run_until_cancelled(pause).await?;
                self.drain();
                continue;
            }
            if self.ended {
                return None;
            }
            if self.behind {
                self.catch_up().await?;
                continue;
            }
            // Events that this listener does not get must not delay it.
            let event = tokio::select! {
                event = self.receiver.recv() => event,
                () = tokio::time::sleep_until(self.sent + self.silence) => {
                    let alive = if self.query.hints { HINT } else { ": \n\n" };
                    return Some(alive.to_owned());
                }
                () = self.stopping.cancelled() => return None,
            };
            match event {
                Ok(batch) => self.publish(batch.iter()),
                Err(RecvError::Lagged(_)) if self.query.hints => self.skip(),
                Err(RecvError::Lagged(_)) => self.behind = true,
                Err(RecvError::Closed) => return None,
            }
        }
    }

    /// Reads the next missed changes from the store. `None` if they cannot be read.
    async fn catch_up(&mut self) -> Option<()> {
        let after = self.last;
        let reading = self
            .dispatch
            .read(move |reader| reader.changes(after, CHANGES_READ));
        let missed = match reading.await {
            Ok(missed) => missed,
            Err(error) => {
                tracing::warn!(%error, "a stream of events ends, because its changes cannot be read");
                return None;
            }
        };
        let lost = missed.oldest.saturating_sub(self.last + 1);
        if lost > 0 {
            self.last = missed.oldest - 1;
            self.ready.push_back(gap(self.last, Some(lost)));
        }
        self.behind = missed.items.len() == CHANGES_READ as usize;
        let events: Vec<Event> = missed.items.into_iter().map(event).collect();
        self.publish(events.iter());
        if !self.behind
            && !self.ended
            && let Some(job) = self.query.job
        {
            let state = self.state(job).await.ok()?;
            self.ended = state.is_none_or(State::is_terminal);
        }
        Some(())
    }

    /// Sets how long to be silent: not long while the job runs that is listened to.
    fn expect_lines(&mut self, is_running: bool) {
        self.silence = if is_running && self.query.hints {
            LOG_EVERY
        } else {
            KEEP_ALIVE
        };
    }

    /// Lets the next piece be a hint.
    fn hint(&mut self) {
        if !std::mem::replace(&mut self.hinted, true) {
            self.ready.push_back(HINT.to_owned());
        }
    }

    /// Hints at more than was received. The job may have started.
    fn skip(&mut self) {
        self.expect_lines(self.query.job.is_some());
        self.hint();
    }

    /// Takes what has happened during a pause. Hints about many jobs need only the first event that is worth one.
    fn drain(&mut self) {
        loop {
            if self.hinted && self.query.job.is_none() {
                self.receiver = self.receiver.resubscribe();
                return;
            }
            match self.receiver.try_recv() {
                Ok(batch) => self.publish(batch.iter()),
                Err(TryRecvError::Lagged(_)) => self.skip(),
                Err(TryRecvError::Empty | TryRecvError::Closed) => return,
            }
        }
    }

    /// Writes the wanted events, except changes that were sent before.
    fn publish<'a>(&mut self, events: impl Iterator<Item = &'a Event>) {
        let mut out = String::new();
        let mut at = (Time::default(), String::new());
        for event in events {
            if let Some(number) = event.number {
                if number <= self.last {
                    continue;
                }
                self.last = number;
            }
            if self.ended
                || !is_wanted(&self.query, &event.happened)
                || !is_visible(scope(&self.caller), &self.query, &event.happened)
            {
                continue;
            }
            if self.query.hints {
                self.hint();
            } else {
                if at.1.is_empty() || at.0 != event.at {
                    at = (event.at, event.at.to_rfc3339());
                }
                write(&mut out, event, &at.1);
            }
            if let (Some(_), EventKind::Changed(change)) = (self.query.job, &event.happened) {
                self.expect_lines(change.to == Some(State::Running));
                self.ended = change.to.is_none_or(State::is_terminal);
            }
        }
        if !out.is_empty() {
            self.ready.push_back(out);
        }
    }
}

fn event(numbered: NumberedChange) -> Event {
    Event {
        number: Some(numbered.number),
        at: numbered.at,
        happened: EventKind::Changed(numbered.change),
    }
}

fn gap(number: u64, lost: Option<u64>) -> String {
    let mut out = String::new();
    put(&mut out, Some(number), "gap", &GapView { lost });
    out
}
