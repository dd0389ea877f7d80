//! Schedules: jobs that are enqueued again and again. A schedule fires at nominal times, which it takes from a calendar;
//! the store keeps what has become of them. Times are those of the wall clock, and the caller passes them.

mod apply;
mod command;
mod refusal;
pub mod tables;

mod calendar;
mod rule;

#[cfg(test)]
mod tests;

use std::fmt;

use host_core::id::JobId;
use host_core::job::Origin;
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::time::Time;
use serde::{Deserialize, Serialize};
use thiserror::Error;

pub use self::calendar::{Calendar, CalendarError, time_zones, time_zones_version};
pub use self::command::*;
pub use self::refusal::*;
pub use self::rule::{Plan, Start};

/// The most schedules of a store.
pub const SCHEDULES_MAX: u64 = 10_000;

/// How many of the latest firings of a schedule are kept.
pub const FIRINGS_KEPT: u64 = 100;

/// The most nominal times that one command handles.
pub const NOMINALS_MAX: usize = 1_000;

/// The most nominal times that wait for an earlier job to end. Later ones are skipped.
pub(crate) const HELD_MAX: usize = 1_000;

/// The most jobs of a schedule that are known to be unfinished. Older ones no longer count.
const OPEN_MAX: usize = 100;

/// A job that is enqueued this long after its nominal time is late, in milliseconds.
const LATE_MS: u64 = 10_000;

/// How far the clock may be set back before times that it shows again are nominal times again, in milliseconds.
pub const SET_BACK_MS: u64 = 60_000;

/// The default of [`Schedule::window_ms`].
pub const WINDOW_MS_DEFAULT: u64 = 3_600_000;

/// The longest note, in bytes.
pub(crate) const NOTE_BYTES_MAX: usize = 1_024;

/// When a schedule fires.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum When {
    /// At the times that any of these patterns has, in the time zone of the schedule.
    Cron(Vec<String>),
    /// At each multiple of an interval since the Unix epoch, moved by a phase.
    Every { ms: u64, phase_ms: u64 },
}

/// What happens at a nominal time while an earlier job of the schedule has not ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overlap {
    /// The time is skipped.
    #[default]
    Skip,
    /// One time waits until the earlier job ends. Others are skipped.
    QueueOne,
    /// Each time waits until the jobs before it have ended.
    QueueAll,
    /// The earlier job is cancelled. The newest time waits until it has ended.
    Cancel,
    /// The jobs run concurrently.
    Allow,
}

/// What happens to nominal times that passed while no host was there to see them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CatchUp {
    /// Nothing: all of them are missed.
    None,
    /// The latest is made up for.
    #[default]
    Last,
    /// All are made up for.
    All,
}

/// Who a schedule belongs to, and thus who may change it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Users of the API.
    #[default]
    Api,
    /// The configuration of the host.
    Configuration,
    /// The manifest of this component.
    Component(Name),
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Api => f.write_str("api"),
            Self::Configuration => f.write_str("configuration"),
            Self::Component(component) => write!(f, "component:{component}"),
        }
    }
}

impl Source {
    /// Names it in a sentence.
    pub fn in_words(&self) -> String {
        match self {
            Self::Api => "the API".to_owned(),
            Self::Configuration => "the configuration".to_owned(),
            Self::Component(component) => format!("the component {component}"),
        }
    }
}

/// A schedule, as it was set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    pub name: Name,
    pub when: When,
    /// The IANA name of the time zone of the patterns.
    pub time_zone: String,
    /// The job to enqueue, as a client writes it.
    pub job: JsonText,
    pub overlap: Overlap,
    pub catch_up: CatchUp,
    /// Nominal times older than this are missed.
    pub window_ms: u64,
    /// Jobs are enqueued up to this long after their nominal times, always as long for the same name.
    pub spread_ms: u64,
    pub from: Option<Time>,
    pub until: Option<Time>,
    pub is_paused: bool,
    pub note: Option<String>,
    pub source: Source,
    /// The principal that set it, with whose rights its jobs run. `None` on a host without tokens.
    pub origin: Option<Box<Origin>>,
}

/// How often each thing has happened to a nominal time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FiringCounts {
    /// Its job was enqueued.
    pub fired: u64,
    /// Its job was enqueued late. These count as fired, too.
    pub late: u64,
    /// An earlier job had not ended.
    pub skipped: u64,
    /// No host enqueued its job in time.
    pub missed: u64,
    /// Its job was refused.
    pub failed: u64,
}

/// What has become of a schedule.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// The next nominal time; `None` after the last.
    pub next: Option<Time>,
    /// Nominal times that wait for an earlier job to end, oldest first.
    pub held: Vec<Time>,
    /// The latest nominal time whose job was enqueued.
    pub previous: Option<Time>,
    /// Its jobs that had not ended when it last fired, oldest first.
    pub open: Vec<JobId>,
    pub counts: FiringCounts,
    /// How many firings were recorded.
    pub recorded: u64,
    /// Why the host paused it: its times can no longer be found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// Grows with each change, so that two nodes never handle the same nominal time.
    pub version: u64,
}

/// A schedule with what has become of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeptSchedule {
    pub schedule: Schedule,
    pub progress: Progress,
}

/// What became of a nominal time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// This job was enqueued.
    Fired(JobId),
    /// It waits for an earlier job to end.
    Held,
    /// An earlier job had not ended.
    Skipped,
    /// No host enqueued its job in time: this many nominal times up to this one.
    Missed(u64),
    /// Its job was refused.
    Failed(String),
}

impl Fate {
    /// Returns the stable name that the API uses.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Fired(_) => "fired",
            Self::Held => "held",
            Self::Skipped => "skipped",
            Self::Missed(_) => "missed",
            Self::Failed(_) => "failed",
        }
    }
}

/// A nominal time with what became of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Firing {
    pub nominal: Time,
    /// When this was decided.
    pub at: Time,
    pub fate: Fate,
}

/// Why a schedule cannot be set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ScheduleError {
    #[error(transparent)]
    Calendar(#[from] CalendarError),
    #[error("spread: must be shorter than the {}s between two firings", least_ms / 1_000)]
    SpreadTooLong { least_ms: u64 },
    #[error("until: must be later than from")]
    Ends,
    #[error("note: must have at most {NOTE_BYTES_MAX} bytes, got {0}")]
    NoteTooLong(usize),
    #[error("when: it never fires between from and until, or within ten years")]
    NeverFires,
    #[error("when.cron: {pattern:?} never fires within ten years")]
    SilentPattern { pattern: String },
}

impl Schedule {
    /// Returns why it cannot be set at the time `now`.
    pub fn check(&self, now: Time) -> Result<(), ScheduleError> {
        let calendar = self.calendar()?;
        let note = self.note.as_ref().map_or(0, String::len);
        if note > NOTE_BYTES_MAX {
            return Err(ScheduleError::NoteTooLong(note));
        }
        if self
            .from
            .zip(self.until)
            .is_some_and(|(from, until)| until <= from)
        {
            return Err(ScheduleError::Ends);
        }
        let mut coming = self.times_of(&calendar, now);
        let first = coming.next().ok_or(ScheduleError::NeverFires)?;
        let start = self.from.map_or(now, |from| now.max(from));
        if let (When::Cron(patterns), Some(silent)) = (&self.when, calendar.silent_pattern(start)) {
            let pattern = patterns[silent].clone();
            return Err(ScheduleError::SilentPattern { pattern });
        }
        match coming.next().map(|second| second.since_ms(first)) {
            Some(least_ms) if self.spread_ms >= least_ms => {
                Err(ScheduleError::SpreadTooLong { least_ms })
            }
            _ => Ok(()),
        }
    }

    /// Returns it paused or not as the one that it replaces, whatever it says itself.
    #[must_use]
    pub fn with_paused_of(&self, before: Option<&Self>) -> Self {
        Self {
            is_paused: before.map_or(self.is_paused, |before| before.is_paused),
            ..self.clone()
        }
    }

    /// Reads its patterns and its time zone.
    pub fn calendar(&self) -> Result<Calendar, CalendarError> {
        Calendar::new(&self.when, &self.time_zone)
    }

    /// Returns its first nominal time after `time`.
    pub(crate) fn next_after(&self, time: Time) -> Option<Time> {
        self.coming(time).next()
    }

    /// Returns its nominal times after `time`, oldest first.
    pub fn coming(&self, time: Time) -> impl Iterator<Item = Time> + use<'_> {
        let calendar = self.calendar().ok().into_iter();
        calendar.flat_map(move |calendar| self.times_of(&calendar, time))
    }

    /// Returns its nominal times after `time` by its calendar, oldest first.
    fn times_of(&self, calendar: &Calendar, time: Time) -> impl Iterator<Item = Time> + use<> {
        let time = self.from.map_or(time, |from| time.max(Time(from.0 - 1)));
        let until = self.until;
        let coming = calendar.coming(time);
        coming.take_while(move |next| until.is_none_or(|until| *next <= until))
    }

    /// Returns how long after its nominal times it fires, in milliseconds: whole seconds, so that schedules which fire
    /// at almost the same time share a commit.
    pub fn offset_ms(&self) -> u64 {
        // FNV-1a: the same on every node and in every version.
        let hash = self
            .name
            .as_str()
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        let seconds = hash.checked_rem(self.spread_ms / 1_000);
        seconds.unwrap_or_default() * 1_000
    }

    /// Returns how long after its time it fired for a nominal time, in milliseconds.
    pub fn late_ms(&self, nominal: Time, fired_at: Time) -> u64 {
        fired_at.since_ms(nominal.plus_ms(self.offset_ms()))
    }

    /// Returns whether firing at this time counts as late.
    pub fn is_late(&self, nominal: Time, fired_at: Time) -> bool {
        self.late_ms(nominal, fired_at) > LATE_MS
    }

    /// Returns whether it has the same nominal times as another.
    fn fires_like(&self, other: &Self) -> bool {
        let times = |of: &Self| (of.when.clone(), of.time_zone.clone(), of.from, of.until);
        times(self) == times(other)
    }
}

impl KeptSchedule {
    /// Sets a schedule, new or in place of `before`, at the time `now`. Its counts stay.
    pub fn set(schedule: Schedule, before: Option<Self>, now: Time) -> Self {
        let goes_on = before.as_ref().is_some_and(|before| {
            schedule.fires_like(&before.schedule) && !before.schedule.is_paused
        });
        let mut progress = before.map(|before| before.progress).unwrap_or_default();
        if !goes_on {
            progress.next = schedule.next_after(now);
            progress.held.clear();
        }
        progress.refused = None;
        progress.version += 1;
        Self { schedule, progress }
    }

    /// Takes over what a plan has made of it. A schedule whose times cannot be found is paused.
    #[must_use]
    pub fn with(self, progress: Progress) -> Self {
        let schedule = Schedule {
            is_paused: self.schedule.is_paused || progress.refused.is_some(),
            ..self.schedule
        };
        Self { schedule, progress }
    }

    /// Returns whether it needs a plan although nothing is due: its times cannot be found, or its next one is too far
    /// ahead, because the clock was set back or its time zone has new rules.
    pub fn is_astray(&self, now: Time) -> bool {
        let calendar = self.schedule.calendar();
        !self.schedule.is_paused && calendar.map_or(true, |calendar| self.lags(&calendar, now))
    }

    /// Returns whether a nominal time that is more than [`SET_BACK_MS`] ahead was handled.
    fn lags(&self, calendar: &Calendar, now: Time) -> bool {
        let ahead = now.plus_ms(SET_BACK_MS).minus_ms(self.schedule.offset_ms());
        let next = self.schedule.times_of(calendar, ahead).next();
        next.is_some_and(|next| self.progress.next.is_none_or(|kept| next < kept))
    }

    /// Returns when it fires next, with its spread; `None` if it does not.
    pub fn fires_at(&self) -> Option<Time> {
        let next = self.progress.next.filter(|_| !self.schedule.is_paused);
        next.map(|next| next.plus_ms(self.schedule.offset_ms()))
    }

    /// Returns whether a nominal time waits for jobs to end.
    pub const fn holds(&self) -> bool {
        !self.schedule.is_paused && !self.progress.held.is_empty()
    }
}
