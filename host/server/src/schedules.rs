//! Brings the schedules of the store to those of the configuration, when the host starts.

use std::collections::BTreeMap;

use host_core::audit::Note;
use host_core::command::Command;
use host_core::name::Name;
use host_core::schedule::{Schedule, Source};
use host_dispatch::{Dispatch, SubmitError};
use host_runtime::clock::Clock;
use host_store::StoreError;

/// How many schedules are read at once.
const PAGE: u32 = 256;

/// Sets the configured schedules that are new or changed, and removes those that are no longer configured. Those that
/// are there stay paused or not. A schedule that cannot be set is logged; the host starts without it.
pub(crate) async fn apply(
    dispatch: &Dispatch,
    configured: &[Schedule],
    clock: Clock,
) -> Result<(), StoreError> {
    let mut kept = stored(dispatch).await?;
    for schedule in configured {
        let before = kept.remove(&schedule.name);
        let schedule = schedule.as_paused_as(before.as_ref());
        if before.as_ref() != Some(&schedule) {
            let (name, wall) = (schedule.name.clone(), clock.civil());
            let set = Command::SetSchedule {
                schedule: Box::new(schedule),
                wall,
            };
            warn_if_failed(&name, "set", submit(dispatch, set, &name, "set").await);
        }
    }
    for name in kept.into_keys() {
        let remove = Command::RemoveSchedule {
            schedule: name.clone(),
        };
        warn_if_failed(
            &name,
            "remove",
            submit(dispatch, remove, &name, "removed").await,
        );
    }
    Ok(())
}

/// Returns the schedules of the store that come from a configuration.
async fn stored(dispatch: &Dispatch) -> Result<BTreeMap<Name, Schedule>, StoreError> {
    let read = dispatch.read(|reader| {
        let (mut all, mut after) = (BTreeMap::new(), String::new());
        loop {
            let page = reader.schedules(&after, PAGE)?;
            let Some(last) = page.last() else {
                return Ok(all);
            };
            after = last.schedule.name.to_string();
            let configured = page.into_iter().map(|kept| kept.schedule);
            let configured = configured.filter(|it| it.source == Source::Configuration);
            all.extend(configured.map(|it| (it.name.clone(), it)));
        }
    });
    read.await
}

async fn submit(
    dispatch: &Dispatch,
    command: Command,
    name: &Name,
    detail: &str,
) -> Result<(), SubmitError> {
    let note = Note::new("configure", format!("schedule {name}")).detail(detail);
    dispatch.submit(command.noted(note)).await.map(drop)
}

fn warn_if_failed(name: &Name, what: &str, done: Result<(), SubmitError>) {
    if let Err(error) = done {
        tracing::warn!(schedule = %name, %error, "cannot {what} a schedule of the configuration");
    }
}
