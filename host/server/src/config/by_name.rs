//! Limits and schedules, which the configuration sets by name.

use host_api::limit::LimitBody;
use host_api::schedule::ScheduleBody;
use host_engine::limit::Limit;
use host_engine::schedule::{Schedule, Source};
use host_wire_kit::section::{At, ConfigError, Tables};
use serde_json::value::to_raw_value;

use super::keys::ScheduleKeys;

/// Makes the limits.
pub(super) fn limits(tables: Tables<LimitBody>) -> Result<Vec<Limit>, ConfigError> {
    let limits = tables.into_iter().map(|(name, At { origin, value })| {
        let limit = value.into_limit(name, Source::Configuration);
        limit.map_err(|message| ConfigError::hidden(origin, message))
    });
    limits.collect()
}

/// Makes the schedules.
pub(super) fn schedules(tables: Tables<ScheduleKeys>) -> Result<Vec<Schedule>, ConfigError> {
    let schedules = tables.into_iter().map(|(name, At { origin, value })| {
        let schedule = body(value).and_then(|body| {
            let schedule = body.into_schedule(name, Source::Configuration, None)?;
            schedule.calendar().map_err(|error| error.to_string())?;
            Ok(schedule)
        });
        schedule.map_err(|message| ConfigError::hidden(origin, message))
    });
    schedules.collect()
}

fn body(keys: ScheduleKeys) -> Result<ScheduleBody, String> {
    let job = keys.job.ok_or("missing `job`, the job to enqueue")?;
    Ok(ScheduleBody {
        when: keys.when.ok_or("missing `when`, the times to fire")?,
        job: to_raw_value(&job).map_err(|error| error.to_string())?,
        time_zone: keys.time_zone,
        overlap: keys.overlap,
        catch_up: keys.catch_up,
        window: keys.window,
        spread: keys.spread,
        from: keys.from,
        until: keys.until,
        paused: false,
        note: keys.note,
    })
}
