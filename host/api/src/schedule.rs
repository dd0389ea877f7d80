//! Schedules as the API takes and shows them.

use host_core::job::Origin;
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::seconds::Seconds;
use host_core::time::Time;
use host_engine::schedule::{
    CatchUp, Fate, Firing, FiringCounts, KeptSchedule, Overlap, Schedule, Source,
    WINDOW_MS_DEFAULT, When,
};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use utoipa::{IntoParams, ToSchema};

use crate::new_job::{JobBatchBody, NewJobBody};
use crate::time::instant;
use crate::words::{FiringFate, ScheduleCatchUp, ScheduleOverlap, Withheld};

/// The largest job of a schedule, in bytes.
const JOB_BYTES_MAX: usize = 32 << 10;

/// A duration as people write it: `90s`, `1h30m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Duration(pub Seconds);

impl TryFrom<String> for Duration {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        Seconds::from_text(&text).map(Self)
    }
}

impl From<Duration> for String {
    fn from(duration: Duration) -> Self {
        duration.0.to_text()
    }
}

/// When a schedule fires: `cron` or `every`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = ScheduleWhen)]
#[serde(deny_unknown_fields)]
pub struct WhenBody {
    /// At the times that a pattern, or any of several, has in the schedule's time zone: five fields, or six with
    /// seconds first; `@daily` and the like.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cron: Option<PatternsBody>,
    /// At the multiples of an interval, such as `10m`: at least a second.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub every: Option<Duration>,
    /// How much later than the multiples, such as `2m`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub phase: Option<Duration>,
}

/// One pattern or several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = SchedulePatterns)]
#[serde(untagged, expecting = "expected a pattern or an array of patterns")]
pub enum PatternsBody {
    /// One.
    One(String),
    /// Several, joined.
    Several(Vec<String>),
}

/// A schedule to set.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = NewSchedule)]
#[serde(deny_unknown_fields)]
pub struct ScheduleBody {
    /// When it fires.
    pub when: WhenBody,
    /// The IANA name of the time zone of cron patterns; `UTC` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The job to enqueue, without `run_at`, `delay_seconds`, `deadline`, `depends_on`, `unique_key` and `unique`.
    #[schema(value_type = NewJobBody)]
    pub job: Box<RawValue>,
    /// What happens while an earlier job has not ended; `skip` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ScheduleOverlap>)]
    pub overlap: Option<Overlap>,
    /// What happens to firings missed while no host ran; `last` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<ScheduleCatchUp>)]
    pub catch_up: Option<CatchUp>,
    /// Firings older than this are missed; `1h` if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub window: Option<Duration>,
    /// The longest delay of its firings, always the same for the same name; none if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<String>)]
    pub spread: Option<Duration>,
    /// It does not fire before this (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// It does not fire after this (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// Whether it is paused.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub paused: bool,
    /// A note for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// A schedule.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Schedule)]
pub struct ScheduleView {
    /// Its name.
    pub name: String,
    /// How it was set.
    pub schedule: ScheduleBody,
    /// Where it comes from: `api`, `configuration`, or `component:NAME`.
    #[serde(default)]
    #[schema(required = true)]
    pub source: String,
    /// Why the host paused it: its times can no longer be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paused_because: Option<String>,
    /// The next nominal time (RFC 3339).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
    /// When it fires next: the nominal time with its spread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fires_at: Option<String>,
    /// The latest nominal time whose job was enqueued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<String>,
    /// How many firings wait for earlier jobs to end.
    #[serde(default)]
    #[schema(required = true)]
    pub held: u64,
    /// How often each thing has happened.
    #[serde(default)]
    #[schema(required = true)]
    pub counts: FiringCountsView,
    /// `params` if its job has params that the caller may not see. That needs the verb `read_payload`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<Withheld>>)]
    pub withheld: Vec<String>,
}

/// How often each thing has happened to a firing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = FiringCounts)]
#[serde(default)]
pub struct FiringCountsView {
    /// Its job was enqueued.
    #[schema(required = true)]
    pub fired: u64,
    /// Its job was enqueued more than 10 seconds late. These count as fired, too.
    #[schema(required = true)]
    pub late: u64,
    /// An earlier job had not ended.
    #[schema(required = true)]
    pub skipped: u64,
    /// No host enqueued its job in time.
    #[schema(required = true)]
    pub missed: u64,
    /// Its job was refused.
    #[schema(required = true)]
    pub failed: u64,
}

/// What became of a firing.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = Firing)]
pub struct FiringView {
    /// The nominal time (RFC 3339); the last of several that were missed.
    pub nominal: String,
    /// When it was decided.
    pub at: String,
    /// What became of it.
    #[schema(value_type = FiringFate)]
    pub fate: String,
    /// The job that was enqueued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<String>,
    /// How many nominal times were missed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub times: Option<u64>,
    /// Why no job was enqueued.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// `reason` if the caller may not see it: it may quote params. That needs the verb `read_payload`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(value_type = Option<Vec<Withheld>>)]
    pub withheld: Vec<String>,
}

/// Why a firing is held.
const HELD: &str = "waits for an earlier job to end";

/// Why a firing was skipped.
const SKIPPED: &str = "an earlier job had not ended";

/// Why firings were missed.
const MISSED: &str = "no host was running, or the window for catching up was over";

/// A time at which a schedule will fire.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = ComingFiring)]
pub struct ComingView {
    /// The nominal time (RFC 3339), in the schedule's time zone with its offset from UTC.
    pub nominal: String,
    /// When it fires, in UTC.
    pub fires_at: String,
}

/// How many coming times to show.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct ComingQuery {
    /// 1–1000; 20 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub count: Option<u32>,
}

/// Which page of schedules to show.
#[derive(Debug, Default, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub struct SchedulesQuery {
    /// 1–1000; 100 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[param(minimum = 1, maximum = 1_000)]
    pub limit: Option<u32>,
    /// The `next_cursor` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cursor: Option<String>,
}

/// The nominal times to enqueue jobs for.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct BackfillBody {
    /// The first instant (RFC 3339).
    pub from: String,
    /// The last instant (RFC 3339). At most 1,000 nominal times may lie between the two.
    pub until: String,
}

/// The jobs that were enqueued.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = TriggeredJobs)]
pub struct TriggeredView {
    /// Their ids, in the order of their nominal times.
    pub jobs: Vec<String>,
}

/// A schedule that was removed.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = RemovedSchedule)]
pub struct RemovedScheduleView {
    /// Its name.
    pub name: String,
    /// Always true.
    pub removed: bool,
}

impl TryFrom<WhenBody> for When {
    type Error = &'static str;

    fn try_from(body: WhenBody) -> Result<Self, &'static str> {
        match (body.cron, body.every, body.phase) {
            (Some(PatternsBody::One(pattern)), None, None) => Ok(Self::Cron(vec![pattern])),
            (Some(PatternsBody::Several(patterns)), None, None) => Ok(Self::Cron(patterns)),
            (None, Some(every), phase) => Ok(Self::Every {
                ms: every.0.ms,
                phase_ms: phase.map_or(0, |phase| phase.0.ms),
            }),
            (None, None, _) => Err("when: needs cron or every"),
            (Some(_), Some(_), _) => Err("when: cron and every are mutually exclusive"),
            (Some(_), None, Some(_)) => Err("when.phase: only valid with every"),
        }
    }
}

impl From<When> for WhenBody {
    fn from(when: When) -> Self {
        match when {
            When::Cron(patterns) => Self {
                cron: Some(match <[String; 1]>::try_from(patterns) {
                    Ok([pattern]) => PatternsBody::One(pattern),
                    Err(patterns) => PatternsBody::Several(patterns),
                }),
                ..Self::default()
            },
            When::Every { ms, phase_ms } => Self {
                every: Some(duration(ms)),
                phase: (phase_ms > 0).then(|| duration(phase_ms)),
                ..Self::default()
            },
        }
    }
}

fn duration(ms: u64) -> Duration {
    Duration(Seconds { ms })
}

impl ScheduleView {
    /// Shows a schedule with this job, of which something may be withheld.
    pub fn new(kept: KeptSchedule, job: Box<RawValue>, withheld: Vec<String>) -> Self {
        let fires_at = kept.fires_at();
        let KeptSchedule { schedule, progress } = kept;
        Self {
            name: schedule.name.into(),
            source: schedule.source.to_string(),
            paused_because: progress.refused,
            next: progress
                .next
                .filter(|_| !schedule.is_paused)
                .map(Time::to_rfc3339),
            fires_at: fires_at.map(Time::to_rfc3339),
            previous: progress.previous.map(Time::to_rfc3339),
            held: progress.held.len() as u64,
            counts: progress.counts.into(),
            withheld,
            schedule: ScheduleBody {
                when: schedule.when.into(),
                time_zone: Some(schedule.time_zone),
                job,
                overlap: Some(schedule.overlap),
                catch_up: Some(schedule.catch_up),
                window: Some(duration(schedule.window_ms)),
                spread: (schedule.spread_ms > 0).then(|| duration(schedule.spread_ms)),
                from: schedule.from.map(Time::to_rfc3339),
                until: schedule.until.map(Time::to_rfc3339),
                paused: schedule.is_paused,
                note: schedule.note,
            },
        }
    }
}

impl ScheduleBody {
    /// Says when it fires: `30 2 * * * Europe/Berlin`, `every 1h + 5m`.
    pub fn when_in_words(&self) -> String {
        let WhenBody { cron, every, phase } = &self.when;
        let patterns = match cron {
            Some(PatternsBody::One(pattern)) => pattern.clone(),
            Some(PatternsBody::Several(patterns)) => patterns.join(", "),
            None => {
                let every = every.map(|every| format!("every {}", every.0.to_text()));
                let phase = phase.map(|phase| format!(" + {}", phase.0.to_text()));
                return every.unwrap_or_default() + &phase.unwrap_or_default();
            }
        };
        let zone = self.time_zone.as_deref().filter(|zone| *zone != "UTC");
        zone.map_or(patterns.clone(), |zone| format!("{patterns} {zone}"))
    }

    /// Makes the schedule. An error begins with the field.
    pub fn into_schedule(
        self,
        name: Name,
        source: Source,
        origin: Option<Box<Origin>>,
    ) -> Result<Schedule, String> {
        let bytes = self.job.get().len();
        if bytes > JOB_BYTES_MAX {
            return Err(format!(
                "job: must have at most {JOB_BYTES_MAX} bytes, got {bytes}"
            ));
        }
        Ok(Schedule {
            name,
            when: self.when.try_into()?,
            time_zone: self.time_zone.unwrap_or_else(|| "UTC".to_owned()),
            job: JsonText(Box::<str>::from(self.job).into_string()),
            overlap: self.overlap.unwrap_or_default(),
            catch_up: self.catch_up.unwrap_or_default(),
            window_ms: self.window.map_or(WINDOW_MS_DEFAULT, |window| window.0.ms),
            spread_ms: self.spread.map_or(0, |spread| spread.0.ms),
            from: self.from.map(|text| instant("from", &text)).transpose()?,
            until: self.until.map(|text| instant("until", &text)).transpose()?,
            is_paused: self.paused,
            note: self.note,
            source,
            origin,
        })
    }
}

/// Refuses what makes no sense for jobs that are enqueued again and again.
pub fn may_be_scheduled(job: &NewJobBody) -> Result<(), String> {
    match job.unfit_for_later() {
        Some(field) => Err(format!("job.{field}: a schedule's job cannot have it")),
        None => match job.batch.as_ref().and_then(JobBatchBody::plan) {
            Some(plan) => {
                let checked = plan.check_callbacks();
                checked.map_err(|detail| format!("job.batch.{detail}"))
            }
            None => Ok(()),
        },
    }
}

impl ComingView {
    /// Shows a nominal time of a schedule.
    pub fn new(schedule: &Schedule, nominal: Time) -> Self {
        let calendar = schedule.calendar().ok();
        let local = calendar.map_or_else(|| nominal.to_rfc3339(), |it| it.local(nominal));
        Self {
            nominal: local,
            fires_at: nominal.plus_ms(schedule.offset_ms()).to_rfc3339(),
        }
    }
}

impl From<FiringCounts> for FiringCountsView {
    fn from(counts: FiringCounts) -> Self {
        Self {
            fired: counts.fired,
            late: counts.late,
            skipped: counts.skipped,
            missed: counts.missed,
            failed: counts.failed,
        }
    }
}

impl From<Firing> for FiringView {
    fn from(firing: Firing) -> Self {
        let fate = firing.fate.as_str().to_owned();
        let (job, times, reason) = match firing.fate {
            Fate::Fired(job) => (Some(job.to_string()), None, None),
            Fate::Missed(times) => (None, Some(times), Some(MISSED)),
            Fate::Failed(ref reason) => (None, None, Some(&**reason)),
            Fate::Held => (None, None, Some(HELD)),
            Fate::Skipped => (None, None, Some(SKIPPED)),
        };
        let reason = reason.map(str::to_owned);
        Self {
            nominal: firing.nominal.to_rfc3339(),
            at: firing.at.to_rfc3339(),
            fate,
            job,
            times,
            reason,
            withheld: Vec::new(),
        }
    }
}
