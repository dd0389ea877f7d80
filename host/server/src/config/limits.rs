//! Limits by key that the configuration sets.

use host_api::limit::LimitBody;
use host_core::limit::Limit;
use host_core::name::Name;
use host_core::schedule::Source;
use host_http::json::read_object;
use host_wires::wire::section::{ConfigError, NamedTable, Section};

/// Reads the limits, by name.
pub(super) fn limits(values: &Section<'_>) -> Result<Vec<Limit>, ConfigError> {
    let limits = values.tables("limits.by").map(|(name, table)| {
        limit(name, table).map_err(|message| ConfigError::Hidden {
            origin: table.origin(""),
            message,
        })
    });
    limits.collect()
}

fn limit(name: &Name, table: &NamedTable) -> Result<Limit, String> {
    // What the API reads as JSON is written as TOML here.
    let text = serde_json::to_string(table.values()).map_err(|error| error.to_string())?;
    let body: Result<LimitBody, _> = read_object(text.as_bytes());
    let body = body.map_err(|error| error.to_string())?;
    body.into_limit(name.clone(), Source::Configuration)
}
