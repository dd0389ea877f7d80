//! The grants of a new revision: which of them this host does not give, and which are new. The new
//! ones are shown to the user who deploys.

use std::collections::BTreeSet;
use std::path::Path;

use host_core::handler::{Grants, HandlerInfo, Manifest, Revision};
use host_core::name::Name;

use crate::run::programs::{Environment, NO_VARIABLE};
use crate::sandbox::roots::ReadRoots;

/// Returns a message about the first grant that this host does not give, if there is one.
pub fn missing(
    manifest: &Manifest,
    handlers: &[HandlerInfo],
    environment: &Environment,
    roots: &ReadRoots,
) -> Option<String> {
    handlers.iter().find_map(|handler| {
        let grants = manifest.grants(&handler.name);
        lacking(&handler.name, &grants, environment, roots)
    })
}

fn lacking(
    handler: &Name,
    grants: &Grants,
    environment: &Environment,
    roots: &ReadRoots,
) -> Option<String> {
    let variable = grants
        .env
        .iter()
        .find(|name| !environment.contains_key(*name));
    if let Some(name) = variable {
        return Some(format!(
            "the manifest grants {handler} the environment variable {name}, {NO_VARIABLE}"
        ));
    }
    grants.read_dirs.iter().find_map(|dir| {
        let error = roots.open(Path::new(&dir.host)).err()?;
        Some(format!(
            "the manifest grants {handler} the directory {}, which this host does not allow: {error}",
            dir.host
        ))
    })
}

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
pub(crate) mod tests;
