//! Schedules that the configuration sets.

use host_api::schedule::ScheduleBody;
use host_core::name::Name;
use host_core::schedule::{Schedule, Source};
use host_http::json::read_object;
use host_wires::wire::section::{ConfigError, NamedTable, Section};

/// Reads the schedules, by name.
pub(super) fn schedules(values: &Section<'_>) -> Result<Vec<Schedule>, ConfigError> {
    let schedules = values.tables("schedules").map(|(name, table)| {
        schedule(name, table).map_err(|message| ConfigError::Hidden {
            origin: table.origin(""),
            message,
        })
    });
    schedules.collect()
}

fn schedule(name: &Name, table: &NamedTable) -> Result<Schedule, String> {
    // What the API reads as JSON is written as TOML here.
    let text = serde_json::to_string(table.values()).map_err(|error| error.to_string())?;
    let body: Result<ScheduleBody, _> = read_object(text.as_bytes());
    let body = body.map_err(|error| error.to_string())?;
    let schedule = body.into_schedule(name.clone(), Source::Configuration, None)?;
    let checked = schedule.calendar();
    checked.map_err(|error| error.to_string())?;
    Ok(schedule)
}
