//! The grants of a new revision: which of them this host does not give, and what changes. The
//! changes are shown to the user who deploys.

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

/// What a revision changes of the grants of handlers: one line for each, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GrantChanges {
    /// New to a handler.
    pub added: Vec<String>,
    /// Taken from a handler that stays.
    pub removed: Vec<String>,
}

/// Returns what changes from the current revision.
pub fn changes(
    current: Option<&Revision>,
    manifest: &Manifest,
    handlers: &[HandlerInfo],
) -> GrantChanges {
    let stays = |old: &&HandlerInfo| handlers.iter().any(|new| new.name == old.name);
    let before = current.map(|revision| {
        let staying = revision.handlers.iter().filter(stays);
        lines(&revision.manifest, staying)
    });
    let before = before.unwrap_or_default();
    let after = lines(manifest, handlers.iter());
    GrantChanges {
        added: after.difference(&before).cloned().collect(),
        removed: before.difference(&after).cloned().collect(),
    }
}

fn lines<'a>(
    manifest: &Manifest,
    handlers: impl Iterator<Item = &'a HandlerInfo>,
) -> BTreeSet<String> {
    let of_handler = |handler: &HandlerInfo| {
        let (name, grants) = (&handler.name, manifest.grants(&handler.name));
        let env = grants.env.into_iter();
        let env = env.map(|variable| format!("{name}: env {variable}"));
        let dirs = grants.read_dirs.into_iter();
        let dirs = dirs.map(|dir| format!("{name}: read {} as {}", dir.host, dir.guest));
        env.chain(dirs).collect::<Vec<_>>()
    };
    handlers.flat_map(of_handler).collect()
}

#[cfg(test)]
pub(crate) mod tests;
