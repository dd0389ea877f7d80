//! What handlers ask of their state: first what the attempt itself has changed counts, then what the store has.

use std::fmt::Display;

use host_core::desk::{DeskError, DeskErrorKind, DeskPass};
use host_core::state::{
    KEYS_MAX, Space, StateKey, StateWrite, StateWrites, VALUE_BYTES_MAX, check_key,
};
use host_dispatch::SubmitError;
use host_engine::Rejection;
use host_engine::state::tables::StateEntry;
use host_engine::state::{SetState, StateRefusal};

use super::{Shared, desk_error, too_much};

/// Returns the space that a handler names, and how large the handler may make it, in bytes.
pub(super) fn space(pass: &DeskPass, named: Option<String>) -> Result<(Space, u64), DeskError> {
    let handler = &pass.handler;
    let not_granted = |message| Err(DeskError::new(DeskErrorKind::NotGranted, message));
    let Some(grant) = &pass.state else {
        return not_granted(format!(
            "the manifest grants {handler} no state; add [handlers.{handler}.state] to it"
        ));
    };
    let quota_bytes = grant.quota_kib.saturating_mul(1 << 10);
    let Some(named) = named else {
        return Ok((Space::Handler(handler.clone()), quota_bytes));
    };
    match grant.shared.iter().find(|name| name.as_str() == named) {
        Some(name) => Ok((Space::Shared(name.clone()), quota_bytes)),
        None => not_granted(format!(
            "the manifest does not let {handler} share the state {named:?}; add it to shared in \
             [handlers.{handler}.state]"
        )),
    }
}

fn invalid(message: &dyn Display) -> DeskError {
    DeskError::new(DeskErrorKind::InvalidRequest, message.to_string())
}

/// Returns the value of a key.
pub(super) async fn get(
    shared: &Shared,
    pass: &DeskPass,
    space: &Space,
    key: &str,
) -> Result<Option<Vec<u8>>, DeskError> {
    check_key(key).map_err(|error| invalid(&error))?;
    match pass.writes.state(space, key) {
        Some(value) => Ok(value),
        None => stored(shared, space, key).await,
    }
}

async fn stored(shared: &Shared, space: &Space, key: &str) -> Result<Option<Vec<u8>>, DeskError> {
    let (space, key) = (space.clone(), key.to_owned());
    let found = shared
        .read(move |reader| reader.get::<StateEntry>((&space, &key)))
        .await
        .map_err(|error| desk_error(&error.into()))?;
    Ok(found.map(|found| found.value.value))
}

/// Changes a key now or with the attempt's end. Returns false if it does not have the expected value.
pub(super) async fn set(
    shared: &Shared,
    pass: &DeskPass,
    (space, quota_bytes): (Space, u64),
    mut write: StateWrite,
    now: bool,
) -> Result<bool, DeskError> {
    check_key(&write.key).map_err(|error| invalid(&error))?;
    let length = write.value.as_ref().map_or(0, Vec::len);
    if length > VALUE_BYTES_MAX {
        return Err(invalid(&format!(
            "a value of state may have at most {VALUE_BYTES_MAX} bytes, got {length}"
        )));
    }
    if now {
        let writes = vec![write];
        return commit(
            shared,
            StateWrites {
                space,
                quota_bytes,
                writes,
            },
        )
        .await;
    }
    if let Some(expected) = &write.expected {
        match pass.writes.state(&space, &write.key) {
            Some(own) if own != *expected => return Ok(false),
            // Nothing else changes what the attempt itself has set.
            Some(_) => write.expected = None,
            None if stored(shared, &space, &write.key).await? != *expected => return Ok(false),
            None => {}
        }
    }
    let set = pass.writes.set_state(space, quota_bytes, write);
    set.map(|()| true).map_err(too_much)
}

async fn commit(shared: &Shared, writes: StateWrites) -> Result<bool, DeskError> {
    let command = SetState(Box::new(writes));
    match shared.api.dispatch.submit(command).await {
        Ok(()) => Ok(true),
        Err(SubmitError::Rejected(Rejection::State(StateRefusal::Changed { .. }))) => Ok(false),
        Err(error @ SubmitError::Rejected(Rejection::State(StateRefusal::Full { .. }))) => {
            let message = error.to_string();
            Err(DeskError::new(DeskErrorKind::LimitReached, message))
        }
        Err(error) => Err(desk_error(&error.into())),
    }
}

/// Lists keys after one, in order: those of the store, with what the attempt itself has set and without what it has
/// removed.
pub(super) async fn list(
    shared: &Shared,
    pass: &DeskPass,
    space: Space,
    prefix: String,
    mut after: String,
) -> Result<Vec<String>, DeskError> {
    if prefix.len().max(after.len()) > VALUE_BYTES_MAX {
        return Err(invalid(&"the prefix is too long"));
    }
    let limit = u32::try_from(KEYS_MAX).unwrap_or(u32::MAX);
    loop {
        let (of, start, from) = (space.clone(), prefix.clone(), after.clone());
        let found = shared
            .read(move |reader| reader.state_keys(&of, &start, &from, limit))
            .await
            .map_err(|error| desk_error(&error.into()))?;
        let is_last = found.len() < KEYS_MAX;
        let end = found.last().map(|last| last.key.clone());
        let keys = merged(found, pass, (&space, &prefix, &after), is_last);
        match end {
            // The attempt has removed all of them.
            Some(end) if keys.is_empty() && !is_last => after = end,
            _ => return Ok(keys),
        }
    }
}

fn merged(
    stored: Vec<StateKey>,
    pass: &DeskPass,
    (space, prefix, after): (&Space, &str, &str),
    is_last: bool,
) -> Vec<String> {
    let end = stored.last().map(|last| last.key.clone());
    let own = pass.writes.state_keys(space);
    let is_in_page = |key: &str| {
        let is_before_end = is_last || end.as_deref().is_some_and(|end| key <= end);
        key.starts_with(prefix) && key > after && is_before_end
    };
    let mut keys: Vec<String> = stored.into_iter().map(|it| it.key).collect();
    keys.retain(|key| !own.contains_key(key));
    let set = own
        .into_iter()
        .filter(|(key, is_set)| *is_set && is_in_page(key));
    keys.extend(set.map(|(key, _)| key));
    keys.sort_unstable();
    keys.truncate(KEYS_MAX);
    keys
}
