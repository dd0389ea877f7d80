//! Limits and schedules, which the configuration sets by name. What the API reads as JSON is written as TOML here.

use host_api::limit::LimitBody;
use host_api::schedule::ScheduleBody;
use host_core::limit::Limit;
use host_core::name::Name;
use host_core::schedule::{Schedule, Source};
use host_http::json::read_object;
use host_wire_kit::section::{ConfigError, Section};
use serde::de::DeserializeOwned;

/// Reads the limits.
pub(super) fn limits(values: &Section<'_>) -> Result<Vec<Limit>, ConfigError> {
    read(values, "limits.by", |name, body: LimitBody| {
        body.into_limit(name, Source::Configuration)
    })
}

/// Reads the schedules.
pub(super) fn schedules(values: &Section<'_>) -> Result<Vec<Schedule>, ConfigError> {
    read(values, "schedules", |name, body: ScheduleBody| {
        let schedule = body.into_schedule(name, Source::Configuration, None)?;
        let checked = schedule.calendar();
        checked.map_err(|error| error.to_string())?;
        Ok(schedule)
    })
}

fn read<B: DeserializeOwned, T>(
    values: &Section<'_>,
    key: &str,
    make: impl Fn(Name, B) -> Result<T, String>,
) -> Result<Vec<T>, ConfigError> {
    let tables = values.tables(key).map(|(name, table)| {
        let text = serde_json::to_string(table.values()).map_err(|error| error.to_string());
        let body = text.and_then(|text| {
            let body: Result<B, _> = read_object(text.as_bytes());
            body.map_err(|error| error.to_string())
        });
        let value = body.and_then(|body| make(name.clone(), body));
        value.map_err(|message| ConfigError::Hidden {
            origin: table.origin(""),
            message,
        })
    });
    tables.collect()
}
