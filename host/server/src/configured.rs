//! Brings the limits and schedules of the store to those of the configuration, when the host starts: sets those that are
//! new or changed, and removes those that are no longer configured.

use std::collections::BTreeMap;

use host_core::name::Name;
use host_core::time::Time;
use host_dispatch::Dispatch;
use host_engine::audit::Note;
use host_engine::limit::tables::read_limits;
use host_engine::limit::{Limit, RemoveLimit, SetLimit};
use host_engine::schedule::{KeptSchedule, RemoveSchedule, Schedule, SetSchedule, Source};
use host_engine::table::{Range, Value};
use host_engine::{Ask as _, Command, StoreError};
use host_runtime::clock::Clock;

use crate::config::Config;

/// How many schedules are read at a time.
const PAGE: u32 = 256;

/// Changes the store. A limit or schedule that cannot be set or removed is logged; the host starts without the change.
pub(crate) async fn apply(
    dispatch: &Dispatch,
    config: &Config,
    clock: Clock,
) -> Result<(), StoreError> {
    let mut changes = limits(stored_limits(dispatch).await?, &config.limits);
    let stored = stored_schedules(dispatch).await?;
    changes.extend(schedules(stored, &config.schedules, clock.civil()));
    for change in changes {
        let Change {
            kind, name, done, ..
        } = change;
        let note = Note::by_host("configure", format!("{kind} {name}")).detail(done);
        if let Err(error) = dispatch.submit(change.command.noted(note)).await {
            tracing::warn!(%name, %error, "a {kind} in the configuration cannot be {done}");
        }
    }
    Ok(())
}

/// A change that the configuration makes.
struct Change {
    kind: &'static str,
    name: Name,
    done: &'static str,
    command: Command,
}

/// Returns the limits of the store that come from a configuration.
async fn stored_limits(dispatch: &Dispatch) -> Result<BTreeMap<Name, Limit>, StoreError> {
    let limits = dispatch.read(read_limits).await?;
    let kept = limits.0.into_values().filter(|kept| !kept.is_removed);
    let configured = kept
        .map(|kept| kept.limit)
        .filter(|it| it.source == Source::Configuration);
    Ok(configured.map(|it| (it.name.clone(), it)).collect())
}

fn limits(mut stored: BTreeMap<Name, Limit>, configured: &[Limit]) -> Vec<Change> {
    let kind = "limit";
    let mut changes = Vec::new();
    for limit in configured {
        if stored.remove(&limit.name).as_ref() != Some(limit) {
            changes.push(Change {
                kind,
                name: limit.name.clone(),
                done: "set",
                command: SetLimit {
                    limit: Box::new(limit.clone()),
                }
                .into(),
            });
        }
    }
    changes.extend(stored.into_keys().map(|name| Change {
        kind,
        name: name.clone(),
        done: "removed",
        command: RemoveLimit { limit: name }.into(),
    }));
    changes
}

/// Returns the schedules of the store that come from a configuration.
async fn stored_schedules(dispatch: &Dispatch) -> Result<BTreeMap<Name, Schedule>, StoreError> {
    let (mut all, mut after) = (BTreeMap::new(), Value::from(""));
    loop {
        let range = Range::all().after(after).first(PAGE);
        let page = dispatch.list::<KeptSchedule>(range).await?;
        let Some(last) = page.last else {
            return Ok(all);
        };
        after = last;
        let configured = page
            .records
            .into_iter()
            .map(|kept| kept.schedule)
            .filter(|it| it.source == Source::Configuration);
        all.extend(configured.map(|it| (it.name.clone(), it)));
    }
}

/// Schedules that are there stay paused or not.
fn schedules(
    mut stored: BTreeMap<Name, Schedule>,
    configured: &[Schedule],
    wall: Time,
) -> Vec<Change> {
    let kind = "schedule";
    let mut changes = Vec::new();
    for schedule in configured {
        let before = stored.remove(&schedule.name);
        let schedule = schedule.with_paused_of(before.as_ref());
        if before.as_ref() == Some(&schedule) {
            continue;
        }
        if let Err(error) = schedule.check(wall) {
            let name = &schedule.name;
            tracing::warn!(%name, %error, "a schedule in the configuration cannot be set");
        } else {
            changes.push(Change {
                kind,
                name: schedule.name.clone(),
                done: "set",
                command: SetSchedule {
                    schedule: Box::new(schedule),
                    wall,
                }
                .into(),
            });
        }
    }
    changes.extend(stored.into_keys().map(|name| Change {
        kind,
        name: name.clone(),
        done: "removed",
        command: RemoveSchedule { schedule: name }.into(),
    }));
    changes
}
