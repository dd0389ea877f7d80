//! Deploys, rolls back and removes components.

use host_core::command::{
    Deploy, Deployed, RemoveComponent, RemovedHandler, Reply, Rollback, component,
};
use host_core::handler::Revision;
use host_core::name::Name;
use host_core::rejection::ComponentRefusal;

use super::{Batch, Rows, Stop};

/// How many revisions of a component are kept, including the current one. Jobs do not need older
/// ones, because an attempt uses the revision that is current when it begins.
const REVISIONS_KEPT: u32 = 20;

impl<R: Rows> Batch<'_, R> {
    pub(super) fn component_command(
        &mut self,
        command: &component::Command,
    ) -> Result<Reply, Stop> {
        match command {
            component::Command::Deploy(deploy) => self.carry_out(deploy, Self::deploy),
            component::Command::Rollback(rollback) => self.carry_out(rollback, Self::rollback),
            component::Command::RemoveComponent(remove) => self.carry_out(remove, Self::remove),
        }
    }

    /// Adds a revision, unless the current one has the same bytes, manifest and handlers.
    fn deploy(&mut self, deploy: &Deploy) -> Result<Deployed, Stop> {
        let mut revision = deploy.revision.clone();
        self.check_owners(&revision)?;
        let revisions = self.rows.revisions(&revision.component)?;
        let current = self.rows.current(&revision.component)?;
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
        self.set_schedules(before, &revision, deploy.wall)?;
        let latest = revisions.iter().map(|old| old.revision).max();
        let latest = match latest {
            Some(latest) => latest,
            None => self.rows.removed_at(&revision.component)?,
        };
        revision.revision = 1 + latest;
        revision.deployed_at = self.now;
        self.rows.add_revision(&revision, &deploy.bytes)?;
        self.rows
            .set_current(&revision.component, revision.revision)?;
        if let Some(kept) = revision.revision.checked_sub(REVISIONS_KEPT)
            && revisions.iter().any(|old| old.revision <= kept)
        {
            self.rows.forget_revisions(&revision.component, kept + 1)?;
        }
        Ok(Deployed {
            revision,
            unchanged: false,
            removed,
        })
    }

    fn rollback(&mut self, rollback: &Rollback) -> Result<Deployed, Stop> {
        let Rollback {
            component,
            revision: number,
            wall,
        } = rollback;
        let current = self
            .rows
            .current(component)?
            .ok_or_else(|| ComponentRefusal::Unknown(component.clone()))?;
        let revisions = self.rows.revisions(component)?;
        let find = |number| revisions.iter().find(|it| it.revision == number);
        let revision = find(*number).ok_or_else(|| ComponentRefusal::UnknownRevision {
            component: component.clone(),
            revision: *number,
        })?;
        self.check_owners(revision)?;
        let removed = self.removed(find(current), revision)?;
        self.set_schedules(find(current), revision, *wall)?;
        self.rows.set_current(component, *number)?;
        Ok(Deployed {
            revision: Box::new(revision.clone()),
            unchanged: *number == current,
            removed,
        })
    }

    fn remove(&mut self, RemoveComponent { component }: &RemoveComponent) -> Result<(), Stop> {
        let Some(current) = self.rows.current(component)? else {
            return Err(ComponentRefusal::Unknown(component.clone()).into());
        };
        let revisions = self.rows.revisions(component)?;
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
            self.rows.remove_schedule(&schedule.name)?;
        }
        self.rows.remove_component(component)?;
        Ok(())
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
        for other in self.rows.current_revisions()? {
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
}
