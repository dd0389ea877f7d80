//! Brings the limits of the store to those of the configuration, when the host starts.

use std::collections::BTreeMap;

use host_core::audit::Note;
use host_core::command::Command;
use host_core::limit::Limit;
use host_core::name::Name;
use host_core::schedule::Source;
use host_dispatch::{Dispatch, SubmitError};
use host_store::StoreError;

/// Sets the configured limits that are new or changed, and removes those that are no longer configured. A limit that cannot
/// be set is logged; the host starts without it.
pub(crate) async fn apply(dispatch: &Dispatch, configured: &[Limit]) -> Result<(), StoreError> {
    let limits = dispatch.read(|reader| reader.limits()).await?;
    let kept = limits.0.into_values().filter(|kept| !kept.is_removed);
    let kept = kept.map(|kept| (kept.limit.name.clone(), kept.limit));
    let mut kept: BTreeMap<Name, Limit> = kept
        .filter(|(_, limit)| limit.source == Source::Configuration)
        .collect();
    for limit in configured {
        if kept.remove(&limit.name).as_ref() != Some(limit) {
            let (name, limit) = (limit.name.clone(), Box::new(limit.clone()));
            let set = Command::SetLimit { limit };
            warn_if_failed(&name, "set", submit(dispatch, set, &name, "set").await);
        }
    }
    for name in kept.into_keys() {
        let limit = name.clone();
        let remove = Command::RemoveLimit { limit };
        let removed = submit(dispatch, remove, &name, "removed").await;
        warn_if_failed(&name, "remove", removed);
    }
    Ok(())
}

async fn submit(
    dispatch: &Dispatch,
    command: Command,
    name: &Name,
    detail: &str,
) -> Result<(), SubmitError> {
    let note = Note::new("configure", format!("limit {name}")).detail(detail);
    dispatch.submit(command.noted(note)).await.map(drop)
}

fn warn_if_failed(name: &Name, what: &str, done: Result<(), SubmitError>) {
    if let Err(error) = done {
        tracing::warn!(limit = %name, %error, "cannot {what} a limit of the configuration");
    }
}
