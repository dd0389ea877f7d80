//! Where webhooks may go, and the webhooks of queues.

use std::collections::BTreeMap;

use host_wire_kit::section::{ConfigError, Tables};

use super::keys::{Queue, Secret};
use crate::webhooks::{Allowed, Webhooks};

/// Checks the sections `[webhooks.NAME]` and what `[queues.NAME]` says of webhooks.
pub(super) fn read(
    tables: Tables<Allowed>,
    secrets: &Tables<Secret>,
    queues: Tables<Queue>,
) -> Result<Webhooks, ConfigError> {
    for table in tables.values() {
        if let Some((key, message)) = flaw(table, secrets) {
            return Err(table.hidden_key(key, message));
        }
    }
    let sections = tables.into_iter();
    let allowed = sections.map(|(name, table)| (name, table.value));
    let webhooks = Webhooks::new(allowed.collect());
    let mut origins = BTreeMap::new();
    let mut receivers = BTreeMap::new();
    for (queue, keys) in queues {
        if let Some(notify) = keys.value.notify {
            origins.insert(queue.clone(), notify.origin);
            receivers.insert(queue, notify.value);
        }
    }
    webhooks.with_queues(receivers).map_err(|(queue, message)| {
        let origin = origins.remove(&queue).unwrap_or_default();
        ConfigError::hidden(origin, message)
    })
}

/// Returns what is wrong with a section: its key, and why.
fn flaw(allowed: &Allowed, secrets: &Tables<Secret>) -> Option<(&'static str, String)> {
    if let Some((_, value, expected)) = allowed.grant().flaw() {
        return Some(("paths", format!("expected {expected}, got {value}")));
    }
    if allowed.secrets.is_empty() {
        return Some((
            "secrets",
            "expected at least one secret: each webhook is signed".to_owned(),
        ));
    }
    let is_named = |secret: &&String| secrets.keys().any(|name| name.as_str() == secret.as_str());
    let other = allowed.secrets.iter().find(|secret| !is_named(secret))?;
    let message = format!("expected names of sections [secrets.NAME], and {other} has none");
    Some(("secrets", message))
}
