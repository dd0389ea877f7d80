//! Tests of schedules: tables for each choice, properties over random histories, and the calendar beside another one.

mod calendar;
mod clock;
mod rule;

use host_core::json::JsonText;
use host_core::time::Time;

use super::{CatchUp, KeptSchedule, Overlap, Schedule, Source, WINDOW_MS_DEFAULT, When};

const SECOND: i64 = 1_000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;

fn every(ms: i64) -> Schedule {
    let ms = ms.unsigned_abs();
    schedule(When::Every { ms, phase_ms: 0 })
}

fn cron(patterns: &[&str], zone: &str) -> Schedule {
    let patterns = patterns.iter().map(ToString::to_string).collect();
    let time_zone = zone.to_owned();
    Schedule {
        time_zone,
        ..schedule(When::Cron(patterns))
    }
}

fn schedule(when: When) -> Schedule {
    Schedule {
        name: "nightly".parse().unwrap(),
        when,
        time_zone: "UTC".to_owned(),
        job: JsonText(r#"{"handler":"report"}"#.to_owned()),
        overlap: Overlap::default(),
        catch_up: CatchUp::default(),
        window_ms: WINDOW_MS_DEFAULT,
        spread_ms: 0,
        from: None,
        until: None,
        is_paused: false,
        note: None,
        source: Source::Api,
        origin: None,
    }
}

fn kept(schedule: Schedule, now: i64) -> KeptSchedule {
    KeptSchedule::set(schedule, None, Time(now))
}
