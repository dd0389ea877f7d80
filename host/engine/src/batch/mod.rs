//! Batches of jobs: how many of them have ended and how, and which callbacks are due then. Pure functions of numbers and
//! time; the store keeps a batch and enqueues its callbacks.

mod apply;
mod command;
mod refusal;
pub mod tables;

mod notify;
#[cfg(test)]
mod tests;

use host_core::access::Scope;
use host_core::id::{BatchId, JobId};
use host_core::job::{Membership, NewJob, State};
use host_core::json::JsonText;
use host_core::notify::{DeliveryHistory, Event};
use host_core::time::Time;
use serde::{Deserialize, Serialize};

pub use self::apply::BatchRows;
pub(crate) use self::apply::UsersBatches;
pub use self::command::*;
pub use self::refusal::*;

pub use host_core::job::{BatchPlan, On};

/// The most jobs of a batch.
pub const BATCH_JOBS_MAX: u64 = 1_000_000;

/// The longest name of a batch, in characters.
pub const NAME_CHARS_MAX: usize = 100;

/// The most batches that have not ended.
pub const BATCHES_MAX: u64 = 10_000;

/// How long a batch stays open at most, in milliseconds. Then it is closed.
pub const OPEN_MS_MAX: u64 = 7 * 24 * 3_600_000;

/// The most failed jobs that the params of a callback list.
pub const FAILED_NAMED_MAX: usize = 1_000;

/// The pause before a callback that was refused is enqueued again, in milliseconds.
const REFUSED_PAUSE_MS: u64 = 10_000;

/// The place behind all jobs.
const END: u64 = u64::MAX;

/// When ticks continue a batch that is being cancelled: always.
const AT_ONCE: Time = Time(1);

/// All of them, in the order in which they are sent.
const ALL: [On; 3] = [On::FirstFailure, On::Success, On::End];

/// How many jobs a batch has, and how those that have ended did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchCounts {
    pub jobs: u64,
    pub completed: u64,
    pub discarded: u64,
    pub cancelled: u64,
}

impl BatchCounts {
    pub const fn not_ended(self) -> u64 {
        self.jobs
            .saturating_sub(self.completed + self.discarded + self.cancelled)
    }
}

/// A request to cancel a batch.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchCancel {
    pub requested_at: Time,
    pub reason: Option<String>,
    /// The place of the last job that was cancelled; `None` once all are.
    pub cursor: Option<u64>,
}

/// What has become of a batch.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct BatchProgress {
    /// Whether jobs may be added.
    pub is_open: bool,
    pub counts: BatchCounts,
    pub ended_at: Option<Time>,
    pub cancel: Option<BatchCancel>,
    /// The callbacks that were enqueued.
    pub fired: Vec<On>,
    /// Those that were refused since they are due, why the last was, and when they are enqueued again.
    pub due: Vec<On>,
    pub refused: Option<String>,
    pub again_at: Option<Time>,
    /// The events for which its receiver has a delivery.
    #[serde(default)]
    pub notified: Vec<On>,
    #[serde(default)]
    pub sent: DeliveryHistory,
}

/// A batch of jobs, as it is kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JobBatch {
    pub id: BatchId,
    pub plan: BatchPlan,
    pub progress: BatchProgress,
}

impl JobBatch {
    /// Returns the batch that a new job makes.
    pub fn started_by(new: &NewJob, now: Time) -> Option<Self> {
        let Some(Membership::Starts(start)) = &new.batch else {
            return None;
        };
        let mut plan = start.plan.clone();
        plan.created_at = now;
        for (place, (_, callback)) in (1..).zip(&mut plan.callbacks) {
            callback.id = new.id.beside(place);
        }
        Some(Self {
            id: new.batch_id()?,
            plan,
            progress: BatchProgress {
                is_open: start.is_open,
                ..BatchProgress::default()
            },
        })
    }
}

/// By how much a turn changes the numbers of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BatchStep {
    jobs: i64,
    completed: i64,
    discarded: i64,
    cancelled: i64,
    /// The place up to which it has cancelled jobs, [`END`] once all are.
    cancelled_up_to: Option<u64>,
}

impl BatchStep {
    /// Counts a change of a job of the batch. New jobs have no state before.
    pub fn count(&mut self, before: Option<State>, after: State) {
        self.jobs += i64::from(before.is_none());
        for (state, step) in [(before, -1), (Some(after), 1)] {
            match state {
                Some(State::Completed) => self.completed += step,
                Some(State::Discarded) => self.discarded += step,
                Some(State::Cancelled) => self.cancelled += step,
                _ => {}
            }
        }
    }

    /// Records that jobs up to a place are cancelled; `None` for all.
    pub const fn cancelled_up_to(&mut self, place: Option<u64>) {
        self.cancelled_up_to = Some(match place {
            Some(place) => place,
            None => END,
        });
    }

    /// Returns how many jobs it adds.
    pub fn added(&self) -> u64 {
        u64::try_from(self.jobs).unwrap_or_default()
    }
}

impl JobBatch {
    /// Adds what a turn has changed, and finds out what that makes due. Returns the deliveries that tell of it.
    pub fn advance(&mut self, step: BatchStep, now: Time) -> Vec<NewJob> {
        let Self { plan, progress, .. } = self;
        let counts = &mut progress.counts;
        for (number, step) in [
            (&mut counts.jobs, step.jobs),
            (&mut counts.completed, step.completed),
            (&mut counts.discarded, step.discarded),
            (&mut counts.cancelled, step.cancelled),
        ] {
            *number = number.saturating_add_signed(step);
        }
        if let (Some(cancel), Some(up_to)) = (&mut progress.cancel, step.cancelled_up_to) {
            // Another node may be further.
            let further = cancel.cursor.map(|cursor| cursor.max(up_to));
            cancel.cursor = further.filter(|cursor| *cursor < END);
        }
        if progress.is_open && now >= plan.created_at.plus_ms(OPEN_MS_MAX) {
            progress.is_open = false;
        }
        let counts = progress.counts;
        let has_ended = !progress.is_open && counts.not_ended() == 0;
        let ends = has_ended && progress.ended_at.is_none();
        if ends {
            progress.ended_at = Some(now);
        }
        let happens = |on: On| match on {
            On::FirstFailure => counts.discarded > 0 && (ends || progress.ended_at.is_none()),
            On::Success => ends && counts.completed == counts.jobs,
            On::End => ends,
        };
        let happened: Vec<On> = ALL.into_iter().filter(|on| happens(*on)).collect();
        for (on, _) in plan
            .callbacks
            .iter()
            .filter(|(on, _)| happened.contains(on))
        {
            if !progress.fired.contains(on) && !progress.due.contains(on) {
                progress.due.push(*on);
                progress.again_at = Some(now);
            }
        }
        self.deliveries(&happened, now)
    }

    /// Returns the deliveries that tell its receiver of what has happened, once of each.
    fn deliveries(&mut self, happened: &[On], now: Time) -> Vec<NewJob> {
        let Self { id, plan, progress } = self;
        let Some(to) = &plan.notify else {
            return Vec::new();
        };
        let mut deliveries = Vec::new();
        for on in happened {
            if to.events.contains(&Event::from(*on)) && !progress.notified.contains(on) {
                progress.notified.push(*on);
                let (batch, to) = ((*id, progress.counts), (to, &mut progress.sent));
                deliveries.push(notify::delivery_of(now, batch, *on, to));
            }
        }
        deliveries
    }

    /// Returns the callbacks to enqueue at this time.
    pub fn due(&self, now: Time) -> Vec<On> {
        match self.progress.again_at {
            Some(at) if at <= now => self.progress.due.clone(),
            _ => Vec::new(),
        }
    }

    /// Records that a callback was enqueued, or why it was refused.
    pub fn fired(&mut self, on: On, refused: Option<String>, now: Time) {
        let progress = &mut self.progress;
        if refused.is_none() {
            progress.due.retain(|due| *due != on);
            progress.fired.push(on);
        } else {
            progress.refused = refused;
        }
        let is_done = progress.due.is_empty();
        progress.again_at = (!is_done).then(|| now.plus_ms(REFUSED_PAUSE_MS));
        if is_done {
            progress.refused = None;
        }
    }

    /// Makes the job of a callback.
    pub fn callback(&self, on: On, failed: &[JobId]) -> Option<NewJob> {
        let mut callbacks = self.plan.callbacks.iter();
        let (_, job) = callbacks.find(|(of, _)| *of == on)?;
        let mut job = job.clone();
        // If its component has been removed, it fails when it starts, and can be retried.
        job.component = None;
        job.payload.params = params(self.id, on, self.progress.counts, failed);
        Some(job)
    }

    /// Returns whether a principal may see it and add to it: if it has made it, or may see everything.
    pub fn is_visible_to(&self, principal: &str, scope: &Scope) -> bool {
        let made_by = self.plan.origin.as_ref();
        scope.is_all() || made_by.is_some_and(|origin| origin.principal == principal)
    }

    /// Returns whether a job may be added: from outside, or by one of its jobs.
    pub fn takes_jobs(&self, from_inside: bool) -> bool {
        let BatchProgress {
            is_open,
            ended_at,
            cancel,
            ..
        } = &self.progress;
        cancel.is_none() && ended_at.is_none() && (*is_open || from_inside)
    }

    /// Returns when a tick has to look at it: to continue a cancel, to enqueue a callback again, to close it, or to
    /// forget it.
    pub fn wake_at(&self) -> Option<Time> {
        let BatchProgress {
            is_open,
            cancel,
            again_at,
            ..
        } = &self.progress;
        let cancels = cancel.as_ref().is_some_and(|it| it.cursor.is_some());
        let closes = is_open.then(|| self.plan.created_at.plus_ms(OPEN_MS_MAX));
        let times = [
            cancels.then_some(AT_ONCE),
            *again_at,
            closes,
            self.kept_until(),
        ];
        times.into_iter().flatten().min()
    }

    /// Returns when it is forgotten, if it has ended. Callbacks that are refused get some days.
    pub fn kept_until(&self) -> Option<Time> {
        let least = if self.progress.due.is_empty() {
            0
        } else {
            OPEN_MS_MAX
        };
        let kept_ms = self.plan.kept_ms.max(least);
        self.progress.ended_at.map(|ended| ended.plus_ms(kept_ms))
    }

    /// Returns whether it is to be forgotten.
    pub fn is_over(&self, now: Time) -> bool {
        self.kept_until().is_some_and(|until| until <= now)
    }
}

/// The counts of a batch, as callbacks and messages have them.
#[derive(Serialize)]
struct CountsData {
    jobs: u64,
    not_ended: u64,
    completed: u64,
    discarded: u64,
    cancelled: u64,
}

impl From<BatchCounts> for CountsData {
    fn from(counts: BatchCounts) -> Self {
        Self {
            jobs: counts.jobs,
            not_ended: counts.not_ended(),
            completed: counts.completed,
            discarded: counts.discarded,
            cancelled: counts.cancelled,
        }
    }
}

/// The params of a callback.
#[derive(Serialize)]
struct CallbackParams {
    batch: String,
    callback: &'static str,
    counts: CountsData,
    failed: Vec<String>,
}

/// Returns the params of a callback.
pub fn params(batch: BatchId, on: On, counts: BatchCounts, failed: &[JobId]) -> JsonText {
    let params = CallbackParams {
        batch: batch.to_string(),
        callback: on.as_str(),
        counts: counts.into(),
        failed: failed.iter().map(JobId::to_string).collect(),
    };
    // Texts and numbers can always be written.
    JsonText(serde_json::to_string(&params).unwrap_or_default())
}
