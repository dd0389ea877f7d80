//! Where webhooks may go, and the webhooks of queues.

use std::collections::{BTreeMap, BTreeSet};

use host_api::webhook::NotifyBody;
use host_core::name::Name;
use host_http::json::read_object;
use host_wire_kit::section::{ConfigError, NamedTable, Section};
use serde::de::DeserializeOwned;

use crate::webhooks::{Allowed, Webhooks};

/// Reads the sections `[webhooks.NAME]` and what `[queues.NAME]` says of webhooks.
pub(super) fn read(values: &Section<'_>) -> Result<Webhooks, ConfigError> {
    let secrets: BTreeSet<&str> = values
        .tables("secrets")
        .map(|(name, _)| name.as_str())
        .collect();
    let mut allowed = BTreeMap::new();
    for (name, table) in values.tables("webhooks") {
        let read: Allowed = parse(table, "", table.values())?;
        let flaw = flaw(&read, &secrets);
        if let Some((key, message)) = flaw {
            let origin = table.origin(key);
            return Err(ConfigError::Hidden { origin, message });
        }
        allowed.insert(name.clone(), read);
    }
    let mut queues: BTreeMap<Name, NotifyBody> = BTreeMap::new();
    let mut origins = BTreeMap::new();
    for (queue, table) in values.tables("queues") {
        if let Some(value) = table.values().get("notify") {
            queues.insert(queue.clone(), parse(table, "notify", value)?);
            origins.insert(queue.clone(), table.origin("notify"));
        }
    }
    let webhooks = Webhooks::new(allowed).with_queues(queues);
    webhooks.map_err(|(queue, message)| ConfigError::Hidden {
        origin: origins.remove(&queue).unwrap_or_default(),
        message,
    })
}

/// Returns what is wrong with a section: its key, and why.
fn flaw(allowed: &Allowed, secrets: &BTreeSet<&str>) -> Option<(&'static str, String)> {
    if let Some((_, value, expected)) = allowed.grant().flaw() {
        return Some(("paths", format!("expected {expected}, got {value}")));
    }
    if allowed.secrets.is_empty() {
        return Some((
            "secrets",
            "expected at least one secret: each webhook is signed".to_owned(),
        ));
    }
    let mut named = allowed.secrets.iter();
    let other = named.find(|name| !secrets.contains(name.as_str()))?;
    let message = format!("expected names of sections [secrets.NAME], and {other} has none");
    Some(("secrets", message))
}

/// Reads a value of the configuration as the API reads it as JSON.
fn parse<T: DeserializeOwned>(
    table: &NamedTable,
    key: &str,
    value: &impl serde::Serialize,
) -> Result<T, ConfigError> {
    let text = serde_json::to_string(value).map_err(|error| error.to_string());
    let read = text.and_then(|text| {
        let read: Result<T, _> = read_object(text.as_bytes());
        read.map_err(|error| error.to_string())
    });
    read.map_err(|message| ConfigError::Hidden {
        origin: table.origin(key),
        message,
    })
}
