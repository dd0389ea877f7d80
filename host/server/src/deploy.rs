//! Changes which components are deployed: checks, compiles, describes and commits a component, then
//! shows it to all parts of the host. Makes one change at a time, and completes it even if the
//! caller is gone.

mod restore;
mod schedules;
mod tried;
mod waiting;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use host_cells::deploy::examine::{self, Candidate, Component, Examiner};
use host_cells::deploy::grants::{self, GrantChanges};
use host_cells::deploy::limits::{self, LimitChange};
use host_cells::run::handlers::{Handlers, Program};
use host_core::handler::HandlerInfo;
use host_core::job::Origin;
use host_core::name::Name;
use host_core::time::Time;
use host_dispatch::nodes::{Presence, SyncOutcome};
use host_dispatch::{Dispatch, SubmitError};
use host_engine::audit::Note;
use host_engine::component::tables::{Blob, read_deployed, read_revisions};
use host_engine::component::{
    Deploy, Digest, Manifest, Release, RemoveComponent, RemovedHandler, Revision, Rollback,
};
use host_engine::{Ask, StoreError, component};
use host_runtime::clock::Clock;
use host_runtime::tasks::Tasks;
use thiserror::Error;
use tokio::sync::{Mutex, MutexGuard, oneshot};

use self::restore::record_loaded;

pub use self::restore::{current, referenced, restore};
pub use self::waiting::Unfit;

/// What the principal that deploys accepts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Consent {
    /// Grants that handlers do not have yet.
    pub new_grants: bool,
    /// That new grants count only if another principal has tried to deploy the same since then.
    pub tried_since: Option<Time>,
    /// That waiting jobs fail because their params do not fit a new schema.
    pub unfit_jobs: bool,
}

/// The principal that deploys a component.
#[derive(Clone, Debug)]
pub struct DeployedBy {
    /// For the audit.
    pub note: Note,
    /// With whose rights the jobs of schedules run.
    pub origin: Option<Box<Origin>>,
    /// What the revision keeps of it.
    pub release: Release,
}

/// The result of a deploy or a rollback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The revision that is now current.
    pub revision: Revision,
    /// Whether it was already current.
    pub unchanged: bool,
    /// The handlers of the previous revision that it lacks.
    pub removed: Vec<RemovedHandler>,
    /// What its handlers may access that those of the previous revision could not: one line each, for users.
    pub grants_added: Vec<String>,
    /// What its handlers could access in the previous revision and cannot any more.
    pub grants_removed: Vec<String>,
    /// The limits of its handlers that differ from the previous revision.
    pub limits_changed: Vec<LimitChange>,
    /// The stubbed interfaces that the component imports.
    pub stubbed: Vec<String>,
}

/// A new revision's changes to its handlers.
#[derive(Default)]
struct RevisionChanges {
    grants: GrantChanges,
    limits_changed: Vec<LimitChange>,
    stubbed: Vec<String>,
}

/// Why nothing was deployed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeployError {
    /// The component was rejected.
    #[error(transparent)]
    Flaw(#[from] examine::Flaw),
    /// The rules reject the change, or the host is stopping.
    #[error(transparent)]
    Submit(SubmitError),
    /// Its handlers would get these grants, which were not accepted.
    #[error("its handlers would get new grants:\n{}", .0.join("\n"))]
    NewGrants(Vec<String>),
    /// The same, and the principal that deploys also accepts them.
    #[error(
        "its handlers would get new grants, and another principal must have tried to deploy the same before:\n{}",
        .0.join("\n")
    )]
    SecondPerson(Vec<String>),
    /// Waiting jobs do not fit the new schemas of its handlers, which was not accepted.
    #[error("params of waiting jobs do not match the new schema: {}", lines(.0))]
    UnfitJobs(Vec<Unfit>),
    #[error("the store cannot be read: {0}")]
    Store(String),
}

/// Changes which components are deployed. Cloning shares it.
#[derive(Clone)]
pub struct Deployments {
    shared: Arc<Shared>,
}

struct Shared {
    dispatch: Dispatch,
    handlers: Handlers,
    examiner: Examiner,
    clock: Clock,
    tasks: Tasks,
    one_at_a_time: Mutex<()>,
    announcing: Mutex<()>,
    /// Whether other nodes may deploy something.
    has_others: bool,
    /// How often the deployed components were read from the store.
    reads: AtomicU64,
}

impl Deployments {
    /// Makes changes through `dispatch` and publishes the result in `handlers`.
    pub fn new(
        dispatch: Dispatch,
        handlers: Handlers,
        examiner: Examiner,
        (tasks, clock): (Tasks, Clock),
        has_others: bool,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                dispatch,
                handlers,
                examiner,
                clock,
                tasks,
                one_at_a_time: Mutex::new(()),
                announcing: Mutex::new(()),
                has_others,
                reads: AtomicU64::new(0),
            }),
        }
    }

    /// Recompiles components whose compiled files cells cannot load, until the host stops.
    pub(crate) fn repair(&self) {
        let shared = Arc::clone(&self.shared);
        self.shared.tasks.spawn(async move {
            let stopping = shared.tasks.stopping().clone();
            loop {
                let damaged = tokio::select! {
                    damaged = shared.handlers.next_damaged() => damaged,
                    () = stopping.cancelled() => return,
                };
                for digest in damaged {
                    shared.compile_again(digest).await;
                }
            }
        });
    }

    /// Makes these bytes the current revision of the component `name`, if its consequences are accepted.
    ///
    /// If this future is dropped, the change is still completed.
    pub async fn deploy(
        &self,
        name: Name,
        manifest: Manifest,
        component: Component,
        consent: Consent,
        by: DeployedBy,
    ) -> Result<Deployed, DeployError> {
        let shared = Arc::clone(&self.shared);
        let deploying = async move {
            let deployed = shared.deploy(name, manifest, component, consent, &by);
            shared.recorded(by.note.clone(), deployed.await).await
        };
        self.run(deploying).await
    }

    /// Makes an earlier revision current, if what would come of it is accepted: for waiting jobs, and grants that were
    /// taken away since. If this future is dropped, the change is still completed.
    pub async fn rollback(
        &self,
        name: Name,
        revision: u32,
        consent: Consent,
        note: Note,
    ) -> Result<Deployed, DeployError> {
        let shared = Arc::clone(&self.shared);
        let rolling = async move {
            let rolled = shared.rollback(name, revision, consent, &note);
            shared.recorded(note.clone(), rolled.await).await
        };
        self.run(rolling).await
    }

    /// Removes a component that no job needs. If this future is dropped, the change is still
    /// completed.
    pub async fn remove(&self, name: Name, note: Note) -> Result<(), DeployError> {
        let shared = Arc::clone(&self.shared);
        self.run(async move { shared.remove(name, note).await })
            .await
    }

    /// Applies deploys of other nodes: publishes them, and compiles new components.
    pub async fn follow(&self) -> SyncOutcome {
        let shared = Arc::clone(&self.shared);
        let following = async move { shared.follow().await };
        self.run(following).await.unwrap_or_else(|error| {
            tracing::warn!(%error, "cannot apply a deploy of another node; retrying");
            SyncOutcome::Nothing
        })
    }

    /// Publishes what other nodes have deployed since, which may not be compiled here yet. Returns false
    /// if that is unknown, or there are no other nodes.
    pub async fn sync(&self) -> bool {
        if !self.shared.has_others {
            return false;
        }
        let seen = self.shared.reads.load(Ordering::Relaxed);
        let one = self.shared.announcing.lock().await;
        // Another sync may have run while this one waited.
        if self.shared.reads.load(Ordering::Relaxed) > seen {
            return true;
        }
        self.shared.publish(one, None).await.is_ok()
    }

    async fn run<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, DeployError>> + Send + 'static,
    ) -> Result<T, DeployError> {
        let (reply, answer) = oneshot::channel();
        self.shared.tasks.spawn(async move {
            // The caller may be gone.
            let _ = reply.send(change.await);
        });
        answer
            .await
            .unwrap_or(Err(DeployError::Submit(SubmitError::Stopping)))
    }
}

/// Reports what this host can run to the other nodes, and what it cannot run to its own loop.
pub(crate) fn report_runnable(presence: &Presence, handlers: &Handlers) {
    presence.set_components(handlers.components());
    presence.set_unrunnable(handlers.unrunnable());
}

impl Shared {
    async fn deploy(
        &self,
        name: Name,
        manifest: Manifest,
        component: Component,
        consent: Consent,
        by: &DeployedBy,
    ) -> Result<Deployed, DeployError> {
        let Candidate {
            name,
            digest,
            manifest,
            component,
        } = Candidate::new(name, manifest, component)?;
        let signature = self.examiner.vouched(&component)?;
        let bytes = component.bytes;
        let _guard = self.one_at_a_time.lock().await;
        let current = self.current(&name).await?;
        let known = grants::known_handlers(current.as_ref(), &manifest);
        self.examiner.check_grants(&manifest, &known)?;
        let new = grants::changes(current.as_ref(), &manifest, &known).added;
        // Two principals compare all grants, which the component's handlers decide.
        if !new.is_empty() && !consent.new_grants && consent.tried_since.is_none() {
            return Err(DeployError::NewGrants(new));
        }
        let compiled = self.compiled(digest, &bytes).await?;
        if let Some(same) = current
            .as_ref()
            .filter(|current| current.is_same(digest, &manifest, signature.as_ref()))
        {
            self.announce(Some(same)).await?;
            return Ok(Deployed {
                revision: same.clone(),
                unchanged: true,
                removed: Vec::new(),
                grants_added: Vec::new(),
                grants_removed: Vec::new(),
                limits_changed: Vec::new(),
                stubbed: compiled.stubbed.clone(),
            });
        }
        let handlers = self.examiner.describe(&compiled, &manifest).await?;
        let wall = self.clock.civil();
        let schedules = schedules::read(&name, &manifest, &handlers, by.origin.as_deref(), wall)
            .map_err(examine::Flaw::Manifest)?;
        let grants = grants::changes(current.as_ref(), &manifest, &examine::names(&handlers));
        let mut note = self.accept(by.note.clone(), &grants.added, consent).await?;
        if let Some(signature) = &signature {
            let detail = note.detail.take().unwrap_or_default();
            note = note.detail(format!("{detail}, signed by {}", signature.key));
        }
        self.check_waiting(&name, &handlers, consent).await?;
        let changes = RevisionChanges {
            grants,
            limits_changed: limits::changed(current.as_ref(), &manifest, &handlers),
            stubbed: compiled.stubbed.clone(),
        };
        let revision = Revision {
            component: name,
            revision: 0,
            digest,
            manifest,
            handlers,
            deployed_at: Time(0),
            signature,
            schedules,
            release: by.release.clone(),
        };
        let command = Deploy {
            revision: Box::new(revision),
            bytes,
            wall,
        };
        self.change(command.noted(note), changes).await
    }

    /// Refuses schemas that waiting jobs do not match, unless that is accepted.
    async fn check_waiting(
        &self,
        component: &Name,
        handlers: &[HandlerInfo],
        consent: Consent,
    ) -> Result<(), DeployError> {
        let unfit = self.unfit_jobs(handlers).await?;
        if unfit.is_empty() {
            return Ok(());
        }
        if !consent.unfit_jobs {
            return Err(DeployError::UnfitJobs(unfit));
        }
        let (component, jobs) = (component.as_str(), lines(&unfit));
        tracing::warn!(
            component,
            jobs,
            "deploying although params of waiting jobs do not match the new schema"
        );
        Ok(())
    }

    /// Finds waiting jobs that do not fit those schemas that are new.
    async fn unfit_jobs(&self, handlers: &[HandlerInfo]) -> Result<Vec<Unfit>, DeployError> {
        let deployed = self.handlers.by_name();
        let is_new = |new: &&HandlerInfo| {
            let current = deployed.get(&new.name);
            current.is_none_or(|current| current.info.params_schema != new.params_schema)
        };
        let changed: Vec<_> = handlers.iter().filter(is_new).cloned().collect();
        let finding = self.dispatch.scan(move |reader| {
            let unfit = changed
                .iter()
                .map(|handler| waiting::unfit(reader, handler));
            unfit.filter_map(Result::transpose).collect()
        });
        finding.await.map_err(unread)
    }

    async fn rollback(
        &self,
        name: Name,
        number: u32,
        consent: Consent,
        note: &Note,
    ) -> Result<Deployed, DeployError> {
        let _guard = self.one_at_a_time.lock().await;
        let asked = name.clone();
        let (revisions, current) = self
            .dispatch
            .read(move |reader| read_revisions(reader, &asked))
            .await
            .map_err(unread)?;
        let mut changes = RevisionChanges::default();
        let mut note = note.clone();
        if let Some(target) = revisions.iter().find(|known| known.revision == number) {
            let digest = target.digest;
            let bytes = self.bytes(digest).await?;
            self.examiner.trusts(target, &bytes)?;
            let compiled = self.compiled(digest, &bytes).await?;
            let before = revisions.iter().find(|known| known.revision == current);
            let grants =
                grants::changes(before, &target.manifest, &examine::names(&target.handlers));
            note = self.accept(note, &grants.added, consent).await?;
            self.check_waiting(&name, &target.handlers, consent).await?;
            changes = RevisionChanges {
                grants,
                limits_changed: limits::changed(before, &target.manifest, &target.handlers),
                stubbed: compiled.stubbed.clone(),
            };
        }
        // The rules check whether the revision exists.
        let command = Rollback {
            component: name,
            revision: number,
            wall: self.clock.civil(),
        };
        self.change(command.noted(note), changes).await
    }

    async fn remove(&self, name: Name, note: Note) -> Result<(), DeployError> {
        let _guard = self.one_at_a_time.lock().await;
        let command = RemoveComponent { component: name }.noted(note);
        self.dispatch
            .submit(command)
            .await
            .map_err(DeployError::Submit)?;
        self.announce(None).await.map(drop)
    }

    async fn change(
        &self,
        command: impl Ask<Reply = component::Deployed>,
        changes: RevisionChanges,
    ) -> Result<Deployed, DeployError> {
        let deployed = self.dispatch.submit(command).await;
        let component::Deployed {
            revision,
            unchanged,
            removed,
        } = deployed.map_err(DeployError::Submit)?;
        self.announce(Some(&revision)).await?;
        Ok(Deployed {
            revision: *revision,
            unchanged,
            removed,
            grants_added: changes.grants.added,
            grants_removed: changes.grants.removed,
            limits_changed: changes.limits_changed,
            stubbed: changes.stubbed,
        })
    }

    async fn compiled(&self, digest: Digest, bytes: &[u8]) -> Result<Arc<Program>, examine::Flaw> {
        let program = self.examiner.program(&self.handlers, digest, bytes).await;
        program.map_err(examine::Flaw::Compile)
    }

    async fn compile_again(&self, digest: Digest) {
        let _guard = self.one_at_a_time.lock().await;
        let compiled = match self.bytes(digest).await {
            Ok(bytes) => {
                let compiled = self.compiled(digest, &bytes).await;
                compiled.map(drop).map_err(|error| error.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        let digest_shown = digest.to_string();
        match &compiled {
            Ok(()) => tracing::info!(digest = digest_shown, "recompiled a component"),
            Err(error) => {
                tracing::error!(
                    digest = digest_shown,
                    error,
                    "cannot recompile a component; its handlers cannot run"
                );
            }
        }
        self.handlers.record_repair(digest, compiled.err());
        report_runnable(&self.dispatch.shared().presence, &self.handlers);
    }

    async fn bytes(&self, digest: Digest) -> Result<Vec<u8>, DeployError> {
        let read = self.dispatch.read(move |reader| reader.get::<Blob>(digest));
        let blob = read.await.map_err(unread)?;
        Ok(blob.map(|blob| blob.bytes).unwrap_or_default())
    }

    async fn current(&self, name: &Name) -> Result<Option<Revision>, DeployError> {
        let revisions = self.dispatch.read(read_deployed).await.map_err(unread)?;
        Ok(revisions
            .into_iter()
            .find(|revision| revision.component == *name))
    }

    /// Publishes what is deployed, compiles what is new here, one component after the other, and publishes
    /// each. Retries components that failed.
    async fn follow(&self) -> Result<SyncOutcome, DeployError> {
        let mut tried = BTreeSet::new();
        loop {
            let current = self.announce(None).await?;
            let is_new = |revision: &&Revision| {
                !self.handlers.has_taken_in(revision) && !tried.contains(&key(revision))
            };
            let Some(revision) = current.iter().find(is_new) else {
                let is_done = |revision| self.handlers.has_taken_in(revision);
                let is_all = current.iter().all(is_done);
                return Ok(if is_all {
                    SyncOutcome::All
                } else {
                    SyncOutcome::Some
                });
            };
            let _guard = self.one_at_a_time.lock().await;
            let bytes = self.bytes(revision.digest).await?;
            let flaw = self.examiner.take_in(&self.handlers, revision, &bytes);
            record_loaded(&self.handlers, revision, flaw.await);
            tried.insert(key(revision));
        }
    }

    /// Publishes what is deployed now, and that this host has compiled one of these revisions.
    async fn announce(&self, compiled: Option<&Revision>) -> Result<Vec<Revision>, DeployError> {
        self.publish(self.announcing.lock().await, compiled).await
    }

    /// Publishes the current deployments. Only one call at a time, so that no stale state is published.
    async fn publish(
        &self,
        _one: MutexGuard<'_, ()>,
        compiled: Option<&Revision>,
    ) -> Result<Vec<Revision>, DeployError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        if let Some(revision) = compiled {
            record_loaded(
                &self.handlers,
                revision,
                self.examiner.missing_grant(revision),
            );
        }
        let revisions = self.dispatch.read(read_deployed).await.map_err(unread)?;
        self.handlers.replace(revisions.clone());
        report_runnable(&self.dispatch.shared().presence, &self.handlers);
        Ok(revisions)
    }
}

fn lines(unfit: &[Unfit]) -> String {
    let lines: Vec<String> = unfit.iter().map(Unfit::to_string).collect();
    lines.join("; ")
}

fn key(revision: &Revision) -> (Name, u32) {
    (revision.component.clone(), revision.revision)
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error")]
fn unread(error: StoreError) -> DeployError {
    DeployError::Store(error.to_string())
}
