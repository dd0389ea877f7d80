//! What a new revision's handlers may reach that the current one's may not: shown to whoever
//! deploys. Pure.

use std::collections::BTreeSet;

use host_core::handler::{HandlerInfo, Manifest, Revision};

/// Returns one line for each grant that is new to a handler, in order.
pub fn added(
    current: Option<&Revision>,
    manifest: &Manifest,
    handlers: &[HandlerInfo],
) -> Vec<String> {
    let mut lines = BTreeSet::new();
    for handler in handlers {
        let before = current
            .filter(|revision| revision.handlers.iter().any(|old| old.name == handler.name))
            .map(|revision| revision.manifest.grants(&handler.name))
            .unwrap_or_default();
        let after = manifest.grants(&handler.name);
        for variable in after.env {
            if !before.env.contains(&variable) {
                lines.insert(format!("{}: env {variable}", handler.name));
            }
        }
        for dir in after.read_dirs {
            if !before.read_dirs.contains(&dir) {
                let (host, guest) = (&dir.host, &dir.guest);
                lines.insert(format!("{}: read {host} as {guest}", handler.name));
            }
        }
    }
    lines.into_iter().collect()
}

#[cfg(test)]
mod tests;
