//! The deployed handlers, with their components and limits. The store keeps the revisions; this is
//! the copy in memory that requests and runs use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use host_core::cell::{Compiled, ComponentKey};
use host_core::failure::{Failure, FailureKind};
use host_core::handler::{HandlerInfo, Limits};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::policy::{Policy, RetentionChoice};
use host_engine::component::{Digest, Grants, Revision};
use host_engine::node::{Component, Components};
use parking_lot::{Mutex, MutexGuard, RwLock};
use tokio::sync::Notify;

use crate::compile::CompileError;
use crate::compile::schema::{Budget, Schema};

/// How much of a flaw the list of nodes shows, in characters.
const FLAW_CHARS: usize = 500;

/// Params of fewer bytes, and checks of at most this many steps, may be checked inline.
const SOON_BYTES: usize = 16 << 10;
const SOON_STEPS: u64 = 5_000;

/// One deployed handler of its component's current revision.
#[derive(Debug)]
pub struct Handler {
    /// The component's own description of the handler.
    pub info: HandlerInfo,
    /// The revision that the handler belongs to.
    pub revision: Arc<Revision>,
    /// The limits of one attempt.
    pub limits: Limits,
    /// The grants of one attempt.
    pub grants: Grants,
    /// The schema of its params, if it has one.
    pub params: Option<Arc<Schema>>,
}

impl Handler {
    /// Returns the component and revision that provide it.
    pub fn provider(&self) -> (String, u32) {
        let revision = &self.revision;
        (revision.component.to_string(), revision.revision)
    }

    /// Returns the policy of jobs that set nothing else.
    pub fn policy(&self) -> Policy {
        self.revision.manifest.policy(&self.info.name)
    }

    /// Returns how long the manifest wants jobs to be kept.
    pub fn retention(&self) -> RetentionChoice {
        self.revision.manifest.retention(&self.info.name)
    }

    /// Checks that the params have no number that handlers would round, and that they match the handler's schema, if it has
    /// one.
    pub fn check_params(&self, params: &JsonText, budget: &mut Budget) -> Result<(), Failure> {
        let checked = params.check_exact().and_then(|()| match &self.params {
            Some(schema) => schema.check_text(params, budget),
            None => Ok(()),
        });
        checked.map_err(|message| Failure::new(FailureKind::InvalidParams, message))
    }

    /// Checks params if that is quick. `None` if it may take long.
    pub fn check_soon(&self, params: &JsonText) -> Option<Result<(), Failure>> {
        if params.as_str().len() >= SOON_BYTES {
            return None;
        }
        let mut budget = Budget::new(SOON_STEPS);
        let checked = self.check_params(params, &mut budget);
        (!budget.is_spent()).then_some(checked)
    }
}

/// One compiled component, ready for a cell to load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The key by which cells know the component.
    pub component: ComponentKey,
    pub path: PathBuf,
    /// The expected hash of the file.
    pub sha256: [u8; 32],
    /// The interfaces that it imports and does not get.
    pub stubbed: Vec<String>,
}

/// Why this host cannot run a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    pub message: String,
    /// Whether this may change while the host runs.
    pub may_pass: bool,
}

impl From<CompileError> for Flaw {
    fn from(error: CompileError) -> Self {
        Self {
            message: error.to_string(),
            may_pass: error.may_pass(),
        }
    }
}

/// All deployed handlers. Clones share them.
#[derive(Clone, Default)]
pub struct Handlers {
    deployed: Arc<RwLock<Arc<Deployed>>>,
    programs: Arc<RwLock<BTreeMap<Digest, Arc<Program>>>>,
    taken: Arc<RwLock<BTreeMap<(Name, u32), Result<(), Flaw>>>>,
    damaged: Arc<Damaged>,
}

/// What is deployed.
#[derive(Default)]
struct Deployed {
    by_name: Arc<BTreeMap<Name, Arc<Handler>>>,
    /// What runs until a component's current revision is compiled here.
    earlier: BTreeMap<Name, Arc<Handler>>,
    revisions: Vec<Arc<Revision>>,
}

/// The components whose compiled files cells could not load.
#[derive(Default)]
struct Damaged {
    digests: Mutex<BTreeSet<Digest>>,
    found: Notify,
}

impl Handlers {
    /// Returns the compiled component with this digest. `None` if this host has not compiled it.
    pub fn program(&self, digest: Digest) -> Option<Arc<Program>> {
        let programs = self.programs.read();
        programs.get(&digest).cloned()
    }

    /// Adds a compiled component. A component that is already known keeps its key, so that cells
    /// that have loaded it need not load it again.
    pub fn add_program(&self, digest: Digest, path: PathBuf, compiled: Compiled) -> Arc<Program> {
        let mut programs = self.programs.write();
        if let Some(known) = programs.get(&digest)
            && known.path == path
            && known.sha256 == compiled.sha256
        {
            return Arc::clone(known);
        }
        let keys = programs.values().map(|program| program.component.0 + 1);
        let component = ComponentKey(keys.max().unwrap_or(0));
        let program = Arc::new(Program {
            component,
            path,
            sha256: compiled.sha256,
            stubbed: compiled.stubbed,
        });
        programs.insert(digest, Arc::clone(&program));
        program
    }

    /// Records that a cell could not load a compiled component.
    pub fn record_damaged(&self, component: ComponentKey) {
        let programs = self.programs.read();
        let mut found = programs.iter();
        if let Some((digest, _)) = found.find(|(_, program)| program.component == component) {
            self.damaged().insert(*digest);
            self.damaged.found.notify_one();
        }
    }

    /// Waits for compiled components that cells could not load, and returns them. Each is returned again
    /// until [`Handlers::record_repair`]. Cancel safe.
    pub async fn next_damaged(&self) -> BTreeSet<Digest> {
        loop {
            let damaged = self.damaged().clone();
            if !damaged.is_empty() {
                return damaged;
            }
            self.damaged.found.notified().await;
        }
    }

    /// Records the result of compiling a component again. If that failed, its handlers cannot run.
    pub fn record_repair(&self, digest: Digest, failed: Option<String>) {
        if let Some(message) = failed {
            let mut programs = self.programs.write();
            programs.remove(&digest);
            drop(programs);
            let deployed = self.deployed();
            let revisions = deployed.revisions.iter();
            for revision in revisions.filter(|revision| revision.digest == digest) {
                let (message, may_pass) = (message.clone(), true);
                self.record_loaded(revision, Some(Flaw { message, may_pass }));
            }
        }
        self.damaged().remove(&digest);
    }

    fn damaged(&self) -> MutexGuard<'_, BTreeSet<Digest>> {
        self.damaged.digests.lock()
    }

    /// Returns whether a deployed handler needs this compiled component.
    pub fn needs(&self, component: ComponentKey) -> bool {
        let deployed = self.deployed();
        let mut handlers = deployed.by_name.values().chain(deployed.earlier.values());
        handlers.any(|handler| {
            self.program(handler.revision.digest)
                .is_some_and(|program| program.component == component)
        })
    }

    /// Records that this host has compiled and checked a revision, and what is wrong with it here.
    /// [`Handlers::replace`] forgets revisions that are no longer current.
    pub fn record_loaded(&self, revision: &Revision, flaw: Option<Flaw>) {
        let key = (revision.component.clone(), revision.revision);
        let mut taken = self.taken.write();
        taken.insert(key, flaw.map_or(Ok(()), Err));
    }

    /// Returns whether this host has compiled and checked a revision and need not try again.
    pub fn has_taken_in(&self, revision: &Revision) -> bool {
        let taken = self.taken(revision);
        taken.is_some_and(|taken| taken.map_or_else(|flaw| !flaw.may_pass, |()| true))
    }

    fn taken(&self, revision: &Revision) -> Option<Result<(), Flaw>> {
        let key = (revision.component.clone(), revision.revision);
        let taken = self.taken.read();
        taken.get(&key).cloned()
    }

    /// Returns the current revisions that this host has compiled and checked, for the list of nodes.
    pub fn components(&self) -> Components {
        let deployed = self.deployed();
        let known = deployed.revisions.iter().filter_map(|revision| {
            let failure = self.taken(revision)?.err();
            let flaw = failure.map(|failure| failure.message.chars().take(FLAW_CHARS).collect());
            let component = Component {
                revision: revision.revision,
                flaw,
            };
            Some((revision.component.clone(), component))
        });
        known.collect()
    }

    /// Returns the handlers that this host cannot run, or cannot run yet.
    pub fn unrunnable(&self) -> BTreeSet<Name> {
        let deployed = self.deployed();
        let lacks = |(name, handler): &(&Name, &Arc<Handler>)| {
            let taken = self.taken(&handler.revision);
            taken.is_some_and(|taken| taken.is_err()) || self.executable(name).is_err()
        };
        let unrunnable = deployed.by_name.iter().filter(lacks);
        unrunnable.map(|(name, _)| name.clone()).collect()
    }

    /// Returns the handler `name` if it is deployed.
    pub fn get(&self, name: &Name) -> Option<Arc<Handler>> {
        self.by_name().get(name).cloned()
    }

    /// Returns the handler `name` with its compiled component, or the failure of a run if either is
    /// missing, or if this host must not run it, for example because a grant was taken back.
    pub fn executable(&self, name: &Name) -> Result<(Arc<Handler>, Arc<Program>), Failure> {
        let failed = |message| Failure::new(FailureKind::HandlerNotFound, message);
        let handler = self.get(name).ok_or_else(|| not_deployed(name))?;
        let revision = &handler.revision;
        let component = revision.component.as_str();
        if let Some(Err(flaw)) = self.taken(revision)
            && !flaw.may_pass
        {
            return Err(failed(format!(
                "the component {component}, which has the handler {name}, cannot run here: {}",
                flaw.message
            )));
        }
        if let Some(program) = self.program(revision.digest) {
            return Ok((handler, program));
        }
        let deployed = self.deployed();
        let earlier = deployed.earlier.get(name).and_then(|earlier| {
            let program = self.program(earlier.revision.digest)?;
            Some((Arc::clone(earlier), program))
        });
        earlier.ok_or_else(|| {
            failed(format!(
                "the component {component}, which has the handler {name}, does not compile here"
            ))
        })
    }

    /// Returns all handlers, by name.
    pub fn by_name(&self) -> Arc<BTreeMap<Name, Arc<Handler>>> {
        Arc::clone(&self.deployed().by_name)
    }

    fn deployed(&self) -> Arc<Deployed> {
        let deployed = self.deployed.read();
        Arc::clone(&deployed)
    }

    /// Replaces all handlers by those of the given current revisions. A handler keeps its previous revision
    /// until this host has compiled the current one. A schema that is already known is not compiled again.
    pub fn replace(&self, revisions: Vec<Revision>) {
        let former = self.deployed();
        let before = &former.by_name;
        let (mut by_name, mut earlier) = (BTreeMap::new(), BTreeMap::new());
        let revisions: Vec<Arc<Revision>> = revisions.into_iter().map(Arc::new).collect();
        for revision in &revisions {
            let is_taken = self.taken(revision).is_some();
            let is_new = !is_taken && self.program(revision.digest).is_none();
            for info in &revision.handlers {
                let handler = Handler {
                    info: info.clone(),
                    revision: Arc::clone(revision),
                    limits: revision.manifest.limits(&info.name),
                    grants: revision.manifest.grants(&info.name),
                    params: schema(before.get(&info.name), info),
                };
                by_name.insert(info.name.clone(), Arc::new(handler));
                let runs = former.runs(&info.name).filter(|_| is_new);
                if let Some(runs) = runs.filter(|it| self.program(it.revision.digest).is_some()) {
                    earlier.insert(info.name.clone(), Arc::clone(runs));
                }
            }
        }
        self.forget_all_but(&revisions);
        let deployed = Deployed {
            by_name: Arc::new(by_name),
            earlier,
            revisions,
        };
        let mut shared = self.deployed.write();
        *shared = Arc::new(deployed);
    }

    fn forget_all_but(&self, revisions: &[Arc<Revision>]) {
        let mut taken = self.taken.write();
        let current: BTreeMap<&Name, u32> = revisions
            .iter()
            .map(|revision| (&revision.component, revision.revision))
            .collect();
        taken.retain(|(component, revision), _| current.get(component) == Some(revision));
    }
}

impl Deployed {
    /// Returns what this host runs for a handler.
    fn runs(&self, name: &Name) -> Option<&Arc<Handler>> {
        self.earlier.get(name).or_else(|| self.by_name.get(name))
    }
}

/// Returns the compiled schema of a handler's params. It was accepted at deploy. If this version
/// refuses it, the params are not checked.
fn schema(before: Option<&Arc<Handler>>, info: &HandlerInfo) -> Option<Arc<Schema>> {
    let text = info.params_schema.as_ref()?;
    let known = before.filter(|handler| handler.info.params_schema.as_ref() == Some(text));
    if let Some(schema) = known.and_then(|handler| handler.params.clone()) {
        return Some(schema);
    }
    match Schema::compile(text) {
        Ok(schema) => Some(Arc::new(schema)),
        Err(refused) => {
            let handler = info.name.as_str();
            tracing::warn!(
                handler,
                refused,
                "this version refuses the schema of a handler; its params are not checked"
            );
            None
        }
    }
}

/// The failure of a run whose handler no component has.
pub(crate) fn not_deployed(name: &Name) -> Failure {
    let message = format!("no deployed component has the handler {name}");
    Failure::new(FailureKind::HandlerNotFound, message)
}

#[cfg(test)]
mod tests;
