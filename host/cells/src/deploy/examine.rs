//! Examines a component before it can be deployed: checks its manifest, compiles it, asks it for
//! its handlers, and checks those and the grants.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use host_core::cell::{HANDLERS_MAX, Protection};
use host_core::handler::HandlerInfo;
use host_core::name::Name;
use host_core::time::Time;
use host_engine::component::{Digest, Manifest, Release, Revision, Signature};
use host_runtime::tasks::Tasks;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::compile::vet::SchemaFlaw;
use crate::compile::{Cache, CompileError};
use crate::deploy::grants::Available;
use crate::deploy::manifest::{self, ManifestError};
use crate::deploy::trust::{Trust, Untrusted};
use crate::process::{Cells, DescribeError};
use crate::run::handlers::{self, Handlers, Program};
use crate::run::programs::Environment;
use crate::sandbox::broker::Reach;
use crate::sandbox::cgroup::{self, Groups};
use crate::sandbox::needs::{self, LimitFlaw};
use crate::sandbox::protection::{self, CodeFile, ProtectionError};
use crate::sandbox::spawn::{CellProgram, Spawner};

/// The largest component, in bytes.
pub const COMPONENT_BYTES_MAX: usize = 32 << 20;

/// Why a component is refused.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Flaw {
    /// The manifest names another component.
    #[error("the manifest is for component {manifest}, not {asked}")]
    OtherName {
        /// The name in the manifest.
        manifest: Name,
        /// The name in the request.
        asked: Name,
    },
    /// The component is too large.
    #[error("the component has {bytes} bytes, more than {COMPONENT_BYTES_MAX}")]
    TooLarge {
        /// The size of the component.
        bytes: usize,
    },
    /// The manifest is invalid.
    #[error(transparent)]
    Manifest(ManifestError),
    /// The component cannot be compiled.
    #[error(transparent)]
    Compile(CompileError),
    /// The component failed to describe its handlers.
    #[error(transparent)]
    Describe(DescribeError),
    /// The component describes something invalid.
    #[error("the component describes {0}")]
    Offer(String),
    /// A schema of the component is invalid.
    #[error("invalid {what} schema of handler {handler}: {message}")]
    Schema {
        handler: Name,
        /// Which schema: that of the params or of the result.
        what: &'static str,
        message: String,
    },
    /// The schemas of the component exceed a limit together.
    #[error("{0}")]
    Schemas(String),
    /// No trusted key has signed the component.
    #[error("the component cannot be trusted: {0}")]
    Untrusted(Untrusted),
    /// The manifest grants something that this host does not have.
    #[error("{0}")]
    GrantMissing(String),
}

/// What examining a component needs.
#[derive(Clone)]
pub struct Examiner {
    /// The cache of compiled components.
    pub cache: Cache,
    /// The cells that ask a component for its handlers.
    pub cells: Cells,
    /// The variables of the host that may be granted.
    pub environment: Environment,
    /// How this system sandboxes cells.
    pub protection: Arc<Protection>,
    /// Whose components run here.
    pub trust: Trust,
}

/// A component with its digest and a manifest that names it.
#[derive(Debug)]
pub struct Candidate {
    pub name: Name,
    pub digest: Digest,
    /// The manifest. Its component name is set.
    pub manifest: Manifest,
    pub component: Component,
}

/// The bytes of a component, with the signature beside them.
#[derive(Debug, Default)]
pub struct Component {
    pub bytes: Vec<u8>,
    pub signature: Option<String>,
}

impl Candidate {
    /// Makes all checks that do not compile.
    pub fn new(name: Name, mut manifest: Manifest, component: Component) -> Result<Self, Flaw> {
        let bytes = &component.bytes;
        if bytes.len() > COMPONENT_BYTES_MAX {
            return Err(Flaw::TooLarge { bytes: bytes.len() });
        }
        if let Some(other) = manifest.name.take().filter(|other| *other != name) {
            return Err(Flaw::OtherName {
                manifest: other,
                asked: name,
            });
        }
        manifest.name = Some(name.clone());
        manifest::check(&manifest).map_err(Flaw::Manifest)?;
        Ok(Self {
            name,
            digest: Digest(Sha256::digest(bytes).into()),
            manifest,
            component,
        })
    }
}

/// Why the host cannot start any cell.
#[derive(Debug, Error)]
pub enum StartError {
    #[error(transparent)]
    Cache(CompileError),
    /// A limit of this process is too low.
    #[error("cannot run cells: {0}")]
    Limits(#[from] LimitFlaw),
    /// This system cannot sandbox cells.
    #[error(transparent)]
    Protection(#[from] ProtectionError),
    /// The system cannot start a thread.
    #[error("cannot start the thread that starts cells: {0}")]
    Thread(io::Error),
}

/// What a process must provide to run cells.
#[derive(Debug)]
pub struct Setup {
    /// The executable of the cells.
    pub program: CellProgram,
    pub cache: PathBuf,
    /// How many bytes of compiled components are kept there.
    pub cache_bytes_max: u64,
    /// A lock that every cell inherits, so that a later host can tell whether a cell is still
    /// alive.
    pub lock: File,
    /// The most guests that a cell runs at a time.
    pub slots: u32,
    /// Memory for all guests of one cell together, in MiB.
    pub memory_mib: u64,
    /// The variables of the host that may be granted.
    pub environment: Environment,
    /// What requests of handlers may reach.
    pub reach: Reach,
    /// Whose components run here.
    pub trust: Trust,
}

impl Examiner {
    /// Checks that this system can sandbox cells, opens the cache and starts the thread that starts cells.
    /// Their tasks are added to `tasks`.
    pub async fn start(setup: Setup, tasks: Tasks) -> Result<Self, StartError> {
        needs::check_limits()?;
        let folder = setup.cache.clone();
        let cache = Cache::open(setup.cache, setup.program.clone(), setup.cache_bytes_max)
            .map_err(StartError::Cache)?;
        let code = CodeFile::make(&folder)?;
        let protection = protection::probe(&setup.program, code, setup.slots).await?;
        let roots = setup.program.confinement.read_roots.clone();
        let spawner =
            Spawner::start(setup.program, setup.lock, groups()).map_err(StartError::Thread)?;
        Ok(Self {
            cache,
            cells: Cells::new(
                spawner,
                tasks,
                setup.memory_mib,
                &folder,
                roots,
                setup.reach,
            ),
            protection: Arc::new(protection),
            environment: setup.environment,
            trust: setup.trust,
        })
    }

    /// Returns the compiled component. Compiles it if it is not in the cache.
    pub async fn program(
        &self,
        handlers: &Handlers,
        digest: Digest,
        bytes: &[u8],
    ) -> Result<Arc<Program>, CompileError> {
        let (path, compiled) = match self.cache.get(digest).await {
            Some(compiled) => compiled,
            None => self.cache.compile(digest, bytes).await?,
        };
        Ok(handlers.add_program(digest, path, compiled))
    }

    /// Checks who vouches for a component that is to be deployed.
    pub fn vouched(&self, component: &Component) -> Result<Option<Signature>, Flaw> {
        let checked = self
            .trust
            .check(&component.bytes, component.signature.as_deref());
        checked.map_err(Flaw::Untrusted)
    }

    /// Checks who vouches for a revision that is deployed.
    pub fn trusts(&self, revision: &Revision, bytes: &[u8]) -> Result<(), Flaw> {
        let signature = revision.signature.as_ref().map(|it| it.text.as_str());
        let checked = self.trust.check(bytes, signature);
        checked.map(drop).map_err(Flaw::Untrusted)
    }

    /// Compiles a revision that was deployed elsewhere or earlier, and checks whether this host trusts it and gives
    /// what it grants. Returns what is wrong with it.
    pub async fn take_in(
        &self,
        handlers: &Handlers,
        revision: &Revision,
        bytes: &[u8],
    ) -> Option<handlers::Flaw> {
        if let Err(untrusted) = self.trusts(revision, bytes) {
            let (message, may_pass) = (untrusted.to_string(), false);
            return Some(handlers::Flaw { message, may_pass });
        }
        if let Err(error) = self.program(handlers, revision.digest, bytes).await {
            return Some(error.into());
        }
        self.missing_grant(revision)
    }

    /// Returns which grant of a revision this host does not give, if there is one.
    pub fn missing_grant(&self, revision: &Revision) -> Option<handlers::Flaw> {
        self.missing(&revision.manifest, &names(&revision.handlers))
    }

    /// Checks that this host gives what a manifest grants to these handlers. Compiles nothing.
    pub fn check_grants(&self, manifest: &Manifest, handlers: &[Name]) -> Result<(), Flaw> {
        match self.missing(manifest, handlers) {
            None => Ok(()),
            Some(flaw) => Err(Flaw::GrantMissing(flaw.message)),
        }
    }

    /// Compiles a component that no store keeps and makes its first revision.
    pub async fn first_revision(
        &self,
        handlers: &Handlers,
        candidate: Candidate,
    ) -> Result<Revision, Flaw> {
        let signature = self.vouched(&candidate.component)?;
        let program = self
            .program(handlers, candidate.digest, &candidate.component.bytes)
            .await
            .map_err(Flaw::Compile)?;
        let offered = self.describe(&program, &candidate.manifest).await?;
        Ok(Revision {
            component: candidate.name,
            revision: 1,
            digest: candidate.digest,
            manifest: candidate.manifest,
            handlers: offered,
            deployed_at: Time(0),
            signature,
            schedules: Vec::new(),
            release: Release::default(),
        })
    }

    /// Asks a compiled component for its handlers and checks those and their grants.
    pub async fn describe(
        &self,
        program: &Program,
        manifest: &Manifest,
    ) -> Result<Vec<HandlerInfo>, Flaw> {
        let offered = self.cells.describe(program).await.map_err(Flaw::Describe)?;
        offer(&offered)?;
        self.vet(&offered).await?;
        manifest::fits(manifest, &offered).map_err(Flaw::Manifest)?;
        self.check_grants(manifest, &names(&offered))?;
        Ok(offered)
    }

    fn missing(&self, manifest: &Manifest, handlers: &[Name]) -> Option<handlers::Flaw> {
        let available = Available {
            environment: &self.environment,
            roots: self.cells.roots(),
            reach: self.cells.reach(),
        };
        available.missing(manifest, handlers)
    }

    /// Compiles all schemas of a component in a limited process.
    async fn vet(&self, handlers: &[HandlerInfo]) -> Result<(), Flaw> {
        let schemas: Vec<_> = handlers
            .iter()
            .flat_map(|handler| {
                let named = [
                    ("params", &handler.params_schema),
                    ("result", &handler.result_schema),
                ];
                named
                    .into_iter()
                    .filter_map(|(what, schema)| Some((&handler.name, what, schema.as_ref()?)))
            })
            .collect();
        if schemas.is_empty() {
            return Ok(());
        }
        let texts: Vec<_> = schemas.iter().map(|(_, _, text)| *text).collect();
        let refused = match self.cache.vet(&texts).await {
            Ok(()) => return Ok(()),
            Err(SchemaFlaw::All(message)) => return Err(Flaw::Schemas(message)),
            Err(SchemaFlaw::One(index, message)) => (schemas.get(index), message),
        };
        Err(match refused {
            (Some((handler, what, _)), message) => Flaw::Schema {
                handler: (*handler).clone(),
                what,
                message,
            },
            (None, message) => Flaw::Schemas(message),
        })
    }
}

/// Takes over the control group that is delegated to this process, if there is one.
fn groups() -> Option<Groups> {
    match cgroup::find().and_then(cgroup::Delegated::divide) {
        Ok(groups) => {
            let limits = groups.controllers().join(" ");
            tracing::info!(limits, "each cell has a control group");
            Some(groups)
        }
        Err(reason) => {
            tracing::debug!(%reason, "no control groups for cells");
            None
        }
    }
}

/// Checks the handlers that a component describes.
fn offer(handlers: &[HandlerInfo]) -> Result<(), Flaw> {
    if handlers.is_empty() {
        return Err(Flaw::Offer("no handlers".to_owned()));
    }
    if handlers.len() > HANDLERS_MAX {
        let offered = format!("more than {HANDLERS_MAX} handlers");
        return Err(Flaw::Offer(offered));
    }
    let mut names = BTreeSet::new();
    for handler in handlers {
        let name = &handler.name;
        if !names.insert(name) {
            return Err(Flaw::Offer(format!("the handler {name} twice")));
        }
    }
    Ok(())
}

/// Returns the names of handlers.
pub fn names(handlers: &[HandlerInfo]) -> Vec<Name> {
    handlers
        .iter()
        .map(|handler| handler.name.clone())
        .collect()
}

#[cfg(test)]
mod tests;
