//! Lets schedules fire. Each node does this for all schedules of the store: the store takes each firing once, from
//! the first.

mod coming;

use std::collections::HashMap;

use futures_util::stream::{self, StreamExt as _};
use host_core::job::NewJob;
use host_core::name::Name;
use host_core::time::Time;
use host_dispatch::SubmitError;
use host_engine::batch::BatchRefusal;
use host_engine::job::JobRefusal;
use host_engine::schedule::{
    CatchUp, Fate, Fire, Firing, KeptSchedule, Overlap, Schedule, ScheduleRefusal,
};
use host_engine::table::{Range, Value};
use host_engine::token::TokenRefusal;
use host_engine::{Reader, Rejection, StoreError};
use host_runtime::ids;
use tokio_util::sync::CancellationToken;

use self::coming::{ClockWatch, Coming, PAGE, READ_EVERY, READ_MS};
use crate::api::Shared;
use crate::api::error::ApiError;

/// How many schedules fire at a time.
const AT_ONCE: usize = 64;

/// The most jobs that one commit enqueues for a schedule that catches up with all of its firings.
const JOBS_MAX: usize = 100;

/// How long after one warning about a schedule the next may follow, in milliseconds.
const WARN_MS: u64 = 60_000;

/// Lets schedules fire until the host starts no more jobs.
pub(in crate::api) async fn run(shared: Shared, draining: CancellationToken) {
    let (mut coming, mut warnings) = (Coming::default(), Warnings::default());
    let mut watch = ClockWatch::default();
    let clock = shared.api.clock;
    while !draining.is_cancelled() {
        if watch.is_set_back(clock.uptime(), clock.civil())
            && let Err(error) = set_right(&shared).await
        {
            watch = ClockWatch::default();
            tracing::warn!(error = %error.detail(), "cannot read schedules; retrying");
        }
        let pause = match turn(&shared, &mut coming, &mut warnings).await {
            Ok(()) => coming.pause(clock.uptime(), clock.civil()),
            Err(error) => {
                tracing::warn!(error = %error.detail(), "cannot read schedules; retrying");
                READ_EVERY
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = draining.cancelled() => {}
        }
    }
}

/// Lets each schedule fire that is due.
async fn turn(
    shared: &Shared,
    coming: &mut Coming,
    warnings: &mut Warnings,
) -> Result<(), ApiError> {
    let clock = shared.api.clock;
    let mut ready = Vec::new();
    let uptime = clock.uptime();
    if coming.is_read_due(uptime) {
        let soon = clock.civil().plus_ms(READ_MS);
        let first = Range::all().due(soon).first(coming.page());
        coming.record_read(uptime, shared.api.dispatch.list(first).await?);
        ready = holding(shared).await?;
    }
    let now = clock.civil();
    ready.extend(coming.take_due(now));
    let mut firing = stream::iter(ready)
        .map(|kept| fire_one(Shared::clone(shared), kept))
        .buffer_unordered(AT_ONCE);
    while let Some((schedule, fired)) = firing.next().await {
        match fired {
            Ok(firings) => {
                for firing in &firings {
                    let is_late = schedule.is_late(firing.nominal, firing.at);
                    shared.api.metrics.count_firing(firing, is_late);
                    warnings.note(&schedule, firing, now);
                }
            }
            Err(error) => {
                coming.record_failure();
                warnings.failed(&schedule.name, &error, now);
            }
        }
    }
    Ok(())
}

/// Sets the schedules right whose next time is too far ahead, and pauses those whose times cannot be found.
async fn set_right(shared: &Shared) -> Result<(), ApiError> {
    let mut after = Value::from("");
    let mut failed = Ok(());
    loop {
        let range = Range::all().after(after).first(PAGE);
        let page = shared.api.dispatch.list::<KeptSchedule>(range).await?;
        let Some(last) = page.last else {
            return failed;
        };
        after = last;
        let now = shared.api.clock.civil();
        for kept in page.records.into_iter().filter(|kept| kept.is_astray(now)) {
            let calendar = kept.schedule.calendar();
            let (schedule, fired) = fire_one(Shared::clone(shared), kept).await;
            if let Err(error) = fired {
                // The others come first.
                failed = Err(error);
                continue;
            }
            let schedule = &schedule.name;
            match calendar {
                Ok(_) => tracing::warn!(
                    %schedule,
                    "a schedule was too far ahead, because the clock was set back or its time zone has new rules; \
                     it follows the clock again"
                ),
                Err(error) => tracing::warn!(
                    %schedule,
                    %error,
                    "a schedule is paused, because its times cannot be found; set it again or remove it"
                ),
            }
        }
    }
}

/// Returns the schedules that wait for jobs which have all ended.
async fn holding(shared: &Shared) -> Result<Vec<KeptSchedule>, ApiError> {
    let dispatch = &shared.api.dispatch;
    let (mut ready, mut after) = (Vec::new(), Value::from(""));
    loop {
        let range = Range::all().marked().after(after).first(PAGE);
        let page = dispatch.list::<KeptSchedule>(range).await?;
        let Some(last) = page.last else {
            return Ok(ready);
        };
        after = last;
        let of_page = dispatch.read(move |reader| {
            let mut of_page = Vec::new();
            for kept in page.records {
                if !is_open(reader, &kept)? {
                    of_page.push(kept);
                }
            }
            Ok(of_page)
        });
        ready.extend(of_page.await?);
    }
}

/// Returns whether a job of a schedule has not ended.
fn is_open(reader: &dyn Reader, kept: &KeptSchedule) -> Result<bool, StoreError> {
    for job in &kept.progress.open {
        let state = reader.state(*job)?;
        if state.is_some_and(|state| !state.is_terminal()) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Lets one schedule fire. Returns what became of its nominal times: nothing if another node was faster.
async fn fire_one(shared: Shared, kept: KeptSchedule) -> (Schedule, Result<Vec<Firing>, ApiError>) {
    let job = super::job_of(&shared, &kept.schedule).await;
    let job = match job {
        Err(error) if error.kind().status >= 429 => return (kept.schedule, Err(error)),
        job => job.map_err(|error| error.detail().to_owned()),
    };
    let fire = |job| fire(&shared, &kept, job, None);
    let mut fired = shared.api.dispatch.submit(fire(job)).await;
    // The store has another reason to refuse the job, which stays.
    if let Err(SubmitError::Rejected(rejection)) = &fired
        && !passes(rejection)
    {
        fired = shared
            .api
            .dispatch
            .submit(fire(Err(rejection.to_string())))
            .await;
    }
    let firings = match fired {
        Ok(firings) => Ok(firings),
        Err(SubmitError::Rejected(Rejection::Schedule(
            ScheduleRefusal::Changed(_) | ScheduleRefusal::Unknown(_),
        ))) => Ok(Vec::new()),
        Err(error) => Err(error.into()),
    };
    (kept.schedule, firings)
}

/// Returns whether a job may be accepted later, as it is.
const fn passes(rejection: &Rejection) -> bool {
    matches!(
        rejection,
        Rejection::Job(JobRefusal::TooManyWaiting { .. })
            | Rejection::Token(TokenRefusal::TooManyJobs { .. })
            | Rejection::Batch(BatchRefusal::TooMany { .. })
            | Rejection::Schedule(ScheduleRefusal::Changed(_) | ScheduleRefusal::Unknown(_))
    )
}

/// Makes the command that lets a schedule fire.
pub(super) fn fire(
    shared: &Shared,
    kept: &KeptSchedule,
    job: Result<NewJob, String>,
    nominals: Option<Vec<Time>>,
) -> Fire {
    let (clock, KeptSchedule { schedule, progress }) = (shared.api.clock, kept);
    let jobs = match (&nominals, schedule.catch_up) {
        (Some(nominals), _) => nominals.len(),
        (None, CatchUp::All) => JOBS_MAX,
        // One that was held, and one that is due.
        (None, CatchUp::Last | CatchUp::None) => 2,
    };
    let now = clock.now();
    Fire {
        schedule: schedule.name.clone(),
        version: progress.version,
        open: progress.open.clone(),
        wall: clock.civil(),
        ids: (0..jobs).map(|_| ids::job(now)).collect(),
        job: job.map(Box::new),
        nominals,
    }
}

/// Warns about schedules that do not keep their pace, each not too often.
#[derive(Default)]
struct Warnings {
    last: HashMap<Name, Time>,
}

impl Warnings {
    fn may(&mut self, name: &Name, now: Time) -> bool {
        self.last.retain(|_, last| now.since_ms(*last) < WARN_MS);
        let is_first = !self.last.contains_key(name);
        if is_first {
            self.last.insert(name.clone(), now);
        }
        is_first
    }

    fn note(&mut self, schedule: &Schedule, firing: &Firing, now: Time) {
        let Some(warning) = warning(schedule, firing) else {
            return;
        };
        if self.may(&schedule.name, now) {
            let (schedule, nominal) = (&schedule.name, firing.nominal.to_rfc3339());
            tracing::warn!(%schedule, nominal, "{warning}; `host schedule show` says more");
        }
    }

    fn failed(&mut self, schedule: &Name, error: &ApiError, now: Time) {
        if self.may(schedule, now) {
            tracing::warn!(%schedule, error = %error.detail(), "a schedule cannot fire; retrying");
        }
    }
}

/// Returns what to warn about if a schedule does not keep the pace of its nominal times.
fn warning(schedule: &Schedule, firing: &Firing) -> Option<String> {
    match &firing.fate {
        Fate::Fired(_) => schedule.is_late(firing.nominal, firing.at).then(|| {
            let late_ms = schedule.late_ms(firing.nominal, firing.at);
            format!("a schedule fired {late_ms} ms late")
        }),
        Fate::Held => matches!(schedule.overlap, Overlap::QueueOne | Overlap::QueueAll)
            .then(|| "a schedule waits for an earlier job to end".to_owned()),
        Fate::Skipped => {
            Some("a schedule skipped a firing: an earlier job had not ended".to_owned())
        }
        Fate::Missed(times) => Some(format!("a schedule missed {times} firings")),
        Fate::Failed(reason) => Some(format!("a schedule could not enqueue its job: {reason}")),
    }
}

#[cfg(test)]
mod tests;
