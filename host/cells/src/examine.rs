//! Looking at a component before anybody may use it: check its manifest, compile it, ask it for its
//! handlers, check what it offers and whether what it is granted is there.

use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use host_core::handler::{Digest, HandlerInfo, Manifest};
use host_core::name::Name;
use host_runtime::tasks::Tasks;
use sha2::{Digest as _, Sha256};
use thiserror::Error;

use crate::compile::{Cache, CompileError};
use crate::grants;
use crate::handlers::{Handlers, Program};
use crate::manifest::{self, ManifestError};
use crate::process::{Cells, DescribeError};
use crate::programs::Environment;
use crate::schema::Schema;
use crate::spawn::{CellProgram, Spawner};

/// The largest component, in bytes.
pub const COMPONENT_BYTES_MAX: usize = 32 << 20;

/// The most handlers of one component.
pub const HANDLERS_MAX: usize = 1_000;

/// Why a component is not taken.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum Flaw {
    /// The manifest names another component.
    #[error("the manifest is of component {manifest}, not of {asked}")]
    OtherName {
        /// The name in the manifest.
        manifest: Name,
        /// The name that was asked for.
        asked: Name,
    },
    /// The component is too large.
    #[error("the component has {bytes} bytes, at most {COMPONENT_BYTES_MAX} are taken")]
    TooLarge {
        /// Its size.
        bytes: usize,
    },
    /// The manifest is not taken.
    #[error(transparent)]
    Manifest(ManifestError),
    /// The component cannot be compiled.
    #[error(transparent)]
    Compile(CompileError),
    /// The component does not say what it offers.
    #[error(transparent)]
    Describe(DescribeError),
    /// What it offers is not taken.
    #[error("the component describes {0}")]
    Offer(String),
    /// A schema in it is not taken.
    #[error("the {what} schema of the handler {handler} is not taken: {message}")]
    Schema {
        /// Of which handler.
        handler: Name,
        /// Of its params or its result.
        what: &'static str,
        /// Why not.
        message: String,
    },
    /// It grants what is not there.
    #[error("{0}")]
    GrantMissing(String),
}

/// What looking at a component takes.
#[derive(Clone)]
pub struct Examiner {
    /// Where compiled components are kept.
    pub cache: Cache,
    /// Where a component is asked for its handlers.
    pub cells: Cells,
    /// What may be granted of the host's environment.
    pub environment: Environment,
}

/// A component under its digest, with a manifest of its own name.
#[derive(Debug)]
pub struct Candidate {
    /// Its name.
    pub name: Name,
    /// What it is.
    pub digest: Digest,
    /// Its manifest, which names it.
    pub manifest: Manifest,
    /// The component.
    pub bytes: Vec<u8>,
}

impl Candidate {
    /// Checks what can be checked without compiling.
    pub fn new(name: Name, mut manifest: Manifest, bytes: Vec<u8>) -> Result<Self, Flaw> {
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
            digest: Digest(Sha256::digest(&bytes).into()),
            manifest,
            bytes,
        })
    }
}

/// Why cells cannot be started at all.
#[derive(Debug, Error)]
pub enum StartError {
    /// The folder of compiled components cannot be used.
    #[error(transparent)]
    Cache(CompileError),
    /// The system gives no thread.
    #[error("cannot start the thread that starts cells: {0}")]
    Thread(io::Error),
}

/// What a process that runs cells brings.
#[derive(Debug)]
pub struct Setup {
    /// Which executable cells are.
    pub program: CellProgram,
    /// The folder of compiled components.
    pub cache: PathBuf,
    /// Inherited by every cell, so that a later host knows that one is still alive.
    pub lock: File,
    /// Memory for the guests of one cell, in MiB.
    pub memory_mib: u64,
    /// What may be granted of the host's environment.
    pub environment: Environment,
}

impl Examiner {
    /// Opens the cache and starts the thread that starts cells; their tasks are among `tasks`.
    pub fn start(setup: Setup, tasks: Tasks) -> Result<Self, StartError> {
        let cache = Cache::open(setup.cache, setup.program.clone()).map_err(StartError::Cache)?;
        let spawner = Spawner::start(setup.program, setup.lock).map_err(StartError::Thread)?;
        Ok(Self {
            cache,
            cells: Cells::new(spawner, tasks, setup.memory_mib),
            environment: setup.environment,
        })
    }

    /// Returns the compiled component, compiled now if it is not in the cache.
    pub async fn program(
        &self,
        handlers: &Handlers,
        digest: Digest,
        bytes: &[u8],
    ) -> Result<Arc<Program>, CompileError> {
        let (path, sha256) = match self.cache.get(digest) {
            Some(compiled) => compiled,
            None => self.cache.compile(digest, bytes).await?,
        };
        Ok(handlers.add_program(digest, path, sha256))
    }

    /// Asks a compiled component for its handlers and checks all that it offers and is granted.
    pub async fn describe(
        &self,
        program: &Program,
        manifest: &Manifest,
    ) -> Result<Vec<HandlerInfo>, Flaw> {
        let offered = self.cells.describe(program).await.map_err(Flaw::Describe)?;
        offer(&offered)?;
        manifest::fits(manifest, &offered).map_err(Flaw::Manifest)?;
        match grants::missing(manifest, &offered, &self.environment) {
            None => Ok(offered),
            Some(message) => Err(Flaw::GrantMissing(message)),
        }
    }
}

/// Checks what a component says it offers.
fn offer(handlers: &[HandlerInfo]) -> Result<(), Flaw> {
    if handlers.is_empty() {
        return Err(Flaw::Offer("no handlers".to_owned()));
    }
    if handlers.len() > HANDLERS_MAX {
        let count = handlers.len();
        let offered = format!("{count} handlers, at most {HANDLERS_MAX} are taken");
        return Err(Flaw::Offer(offered));
    }
    let mut names = BTreeSet::new();
    for handler in handlers {
        let name = &handler.name;
        if !names.insert(name) {
            return Err(Flaw::Offer(format!("the handler {name} twice")));
        }
        for (what, schema) in [
            ("params", &handler.params_schema),
            ("result", &handler.result_schema),
        ] {
            if let Some(Err(message)) = schema.as_ref().map(Schema::compile) {
                return Err(Flaw::Schema {
                    handler: name.clone(),
                    what,
                    message,
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
