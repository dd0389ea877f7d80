//! Deploys, rolls back and removes components.

use host_core::name::Name;

use super::tables::{BLOBS, Blob, COMPONENTS, Component, REVISIONS, current_keys};
use super::{
    ComponentRefusal, Deploy, Deployed, RemoveComponent, RemovedHandler, Revision, Rollback,
};
use crate::schedule::Schedule;
use crate::table::{Range, Record as _, Value};
use crate::{Batch, Rows, Stop, StoreError};

/// How many revisions of a component are kept, including the current one. Jobs do not need older
/// ones, because an attempt uses the revision that is current when it begins.
const REVISIONS_KEPT: u32 = 20;

impl<R: Rows> Batch<'_, R> {
    /// Adds a revision, unless the current one has the same bytes, manifest and handlers.
    pub(super) fn deploy(&mut self, deploy: &Deploy) -> Result<Deployed, Stop> {
        let mut revision = deploy.revision.clone();
        self.check_owners(&revision)?;
        let name = &revision.component;
        let (kept, revisions) = self.component(name)?;
        let current = kept.as_ref().and_then(Component::deployed);
        if let Some(same) = revisions.iter().find(|old| {
            let (digest, manifest) = (revision.digest, &revision.manifest);
            Some(old.revision) == current
                && old.is_same(digest, manifest, revision.signature.as_ref())
        }) {
            return Ok(Deployed {
                revision: Box::new(same.clone()),
                unchanged: true,
                removed: Vec::new(),
            });
        }
        let before = revisions.iter().find(|old| Some(old.revision) == current);
        let removed = self.removed(before, &revision)?;
        if current.is_none() {
            self.check_components(&revision.component)?;
        }
        // Numbers continue if a removed component returns, because attempts and users refer to them.
        self.set_schedules(schedules_of(before), &revision.schedules, deploy.wall)?;
        let latest = revisions.iter().map(|old| old.revision).max();
        let removed_at = kept.and_then(|it| u32::try_from(it.current.unsigned_abs()).ok());
        revision.revision = 1 + latest.or(removed_at).unwrap_or_default();
        revision.deployed_at = self.now;
        let digest = Blob::key(revision.digest);
        if self.rows.count_rows(&BLOBS, Range::of(digest.clone()))? == 0 {
            let bytes = Value::from(&deploy.bytes[..]);
            let row = digest.into_iter().chain([bytes]);
            self.rows.put_row(&BLOBS, row.collect())?;
        }
        self.rows.put(&*revision)?;
        let name = &revision.component;
        self.set_current(name, i64::from(revision.revision))?;
        if let Some(kept) = revision.revision.checked_sub(REVISIONS_KEPT)
            && revisions.iter().any(|old| old.revision <= kept)
        {
            let old = Range::of(Component::key(name)).up_to(kept);
            self.rows.delete_rows(&REVISIONS, old)?;
            self.rows.forget_blobs()?;
        }
        Ok(Deployed {
            revision,
            unchanged: false,
            removed,
        })
    }

    pub(super) fn rollback(&mut self, rollback: &Rollback) -> Result<Deployed, Stop> {
        let Rollback {
            component,
            revision: number,
            wall,
        } = rollback;
        let (kept, revisions) = self.component(component)?;
        let current = kept
            .and_then(|it| it.deployed())
            .ok_or_else(|| ComponentRefusal::Unknown(component.clone()))?;
        let find = |number| revisions.iter().find(|it| it.revision == number);
        let revision = find(*number).ok_or_else(|| ComponentRefusal::UnknownRevision {
            component: component.clone(),
            revision: *number,
        })?;
        self.check_owners(revision)?;
        let removed = self.removed(find(current), revision)?;
        self.set_schedules(schedules_of(find(current)), &revision.schedules, *wall)?;
        self.set_current(component, i64::from(*number))?;
        Ok(Deployed {
            revision: Box::new(revision.clone()),
            unchanged: *number == current,
            removed,
        })
    }

    pub(super) fn remove(
        &mut self,
        RemoveComponent { component }: &RemoveComponent,
    ) -> Result<(), Stop> {
        let (kept, revisions) = self.component(component)?;
        let Some(current) = kept.and_then(|it| it.deployed()) else {
            return Err(ComponentRefusal::Unknown(component.clone()).into());
        };
        let of_all = revisions.iter().flat_map(|revision| &revision.handlers);
        let mut handlers: Vec<Name> = of_all.map(|handler| handler.name.clone()).collect();
        handlers.sort();
        handlers.dedup();
        let mut jobs = 0;
        for handler in &handlers {
            jobs += self.rows.live_jobs(handler)?;
        }
        if jobs > 0 {
            let component = component.clone();
            return Err(ComponentRefusal::InUse { component, jobs }.into());
        }
        let current = revisions.iter().find(|it| it.revision == current);
        for schedule in current.into_iter().flat_map(|it| &it.schedules) {
            self.delete_schedule(&schedule.name)?;
        }
        let latest = revisions.iter().map(|it| it.revision).max();
        self.set_current(component, -i64::from(latest.unwrap_or_default()))?;
        let all = Range::of(Component::key(component));
        self.rows.delete_rows(&REVISIONS, all)?;
        self.rows.forget_blobs()?;
        Ok(())
    }

    /// Returns what is kept of a component, and its revisions, oldest first.
    fn component(&mut self, name: &Name) -> Result<(Option<Component>, Vec<Revision>), StoreError> {
        let kept = self.rows.get(name)?;
        let revisions = self.rows.list(Range::of(Component::key(name)))?;
        Ok((kept, revisions))
    }

    /// Makes a revision the current one. A negative number marks a component as removed.
    fn set_current(&mut self, name: &Name, current: i64) -> Result<(), StoreError> {
        let name = name.clone();
        self.rows.put(&Component { name, current })
    }

    /// Returns the current revision of each component.
    fn current_revisions(&mut self) -> Result<Vec<Revision>, StoreError> {
        let components = self.rows.list(Range::all().marked())?;
        let keys = current_keys(&components);
        let rows = self.rows.get_rows(&REVISIONS, keys)?.into_iter().flatten();
        rows.map(Revision::from_row).collect()
    }

    /// Returns the handlers of a revision that the next one lacks.
    fn removed(
        &mut self,
        before: Option<&Revision>,
        after: &Revision,
    ) -> Result<Vec<RemovedHandler>, Stop> {
        let mut removed = Vec::new();
        for handler in before.into_iter().flat_map(|before| &before.handlers) {
            let handler = &handler.name;
            if !after.handlers.iter().any(|kept| kept.name == *handler) {
                removed.push(RemovedHandler {
                    handler: handler.clone(),
                    jobs: self.rows.live_jobs(handler)?,
                });
            }
        }
        Ok(removed)
    }

    /// Refuses handlers that belong to the current revision of another component.
    fn check_owners(&mut self, revision: &Revision) -> Result<(), Stop> {
        for other in self.current_revisions()? {
            if other.component == revision.component {
                continue;
            }
            for handler in &revision.handlers {
                if other
                    .handlers
                    .iter()
                    .any(|theirs| theirs.name == handler.name)
                {
                    return Err(ComponentRefusal::HandlerOwned {
                        handler: handler.name.clone(),
                        owner: other.component,
                    }
                    .into());
                }
            }
        }
        Ok(())
    }

    /// Checks that there may be another component.
    pub(crate) fn check_components(&mut self, component: &Name) -> Result<(), Stop> {
        let limit = self.bounds.capacity.components_max;
        if self.rows.count_rows(&COMPONENTS, Range::all().marked())? >= limit {
            let component = component.clone();
            return Err(ComponentRefusal::TooMany { component, limit }.into());
        }
        Ok(())
    }
}

fn schedules_of(revision: Option<&Revision>) -> &[Schedule] {
    revision.map_or(&[], |it| &it.schedules)
}
