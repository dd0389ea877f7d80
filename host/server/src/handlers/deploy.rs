//! Changing what is deployed: check, compile, describe, commit, and then let everybody see it. One
//! change at a time, and each goes on to its end even if whoever asked for it has gone.

use std::sync::Arc;

use host_core::command::{Command, Reply};
use host_core::handler::{Digest, HandlerInfo, Manifest, Revision};
use host_core::name::Name;
use host_core::time::Time;
use host_store::StoreError;
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use tokio::sync::{Mutex, oneshot};

use super::compile::{Cache, CompileError};
use super::manifest::{self, ManifestError};
use super::schema::Schema;
use super::{Handlers, Program, grants};
use crate::cells::process::{Cells, DescribeError};
use crate::dispatch::{Dispatch, SubmitError};
use crate::tasks::Tasks;

/// The largest component, in bytes.
pub const COMPONENT_BYTES_MAX: usize = 32 << 20;

/// The most handlers of one component.
pub const HANDLERS_MAX: usize = 1_000;

/// What a deploy or a rollback did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Deployed {
    /// The current revision now.
    pub revision: Revision,
    /// Whether it was current before.
    pub unchanged: bool,
    /// What its handlers may reach that the revision before did not: one line each, for people.
    pub grants_added: Vec<String>,
}

/// Why nothing was deployed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum DeployError {
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
    /// The rules refuse it, or the host is stopping.
    #[error(transparent)]
    Submit(SubmitError),
    /// The store cannot be read.
    #[error("the store cannot be read: {0}")]
    Store(String),
}

/// Changes what is deployed. Cloning shares it.
#[derive(Clone)]
pub struct Deployments {
    shared: Arc<Shared>,
}

struct Shared {
    dispatch: Dispatch,
    handlers: Handlers,
    cells: Cells,
    cache: Cache,
    tasks: Tasks,
    one_at_a_time: Mutex<()>,
}

impl Deployments {
    /// Deploys through `dispatch` and shows the result in `handlers`.
    pub fn new(
        dispatch: Dispatch,
        handlers: Handlers,
        cells: Cells,
        cache: Cache,
        tasks: Tasks,
    ) -> Self {
        Self {
            shared: Arc::new(Shared {
                dispatch,
                handlers,
                cells,
                cache,
                tasks,
                one_at_a_time: Mutex::new(()),
            }),
        }
    }

    /// Makes these bytes the current revision of the component `name`.
    ///
    /// Dropped, it goes on to its end all the same.
    pub async fn deploy(
        &self,
        name: Name,
        manifest: Manifest,
        bytes: Vec<u8>,
    ) -> Result<Deployed, DeployError> {
        let shared = Arc::clone(&self.shared);
        self.run(async move { shared.deploy(name, manifest, bytes).await })
            .await
    }

    /// Makes an earlier revision current. Dropped, it goes on to its end all the same.
    pub async fn rollback(&self, name: Name, revision: u32) -> Result<Deployed, DeployError> {
        let shared = Arc::clone(&self.shared);
        self.run(async move { shared.rollback(name, revision).await })
            .await
    }

    /// Forgets a component that no job needs. Dropped, it goes on to its end all the same.
    pub async fn remove(&self, name: Name) -> Result<(), DeployError> {
        let shared = Arc::clone(&self.shared);
        self.run(async move { shared.remove(name).await }).await
    }

    async fn run<T: Send + 'static>(
        &self,
        change: impl Future<Output = Result<T, DeployError>> + Send + 'static,
    ) -> Result<T, DeployError> {
        let (reply, answer) = oneshot::channel();
        self.shared.tasks.spawn(async move {
            // Whoever asked may have gone.
            let _gone = reply.send(change.await);
        });
        answer
            .await
            .unwrap_or(Err(DeployError::Submit(SubmitError::Stopping)))
    }
}

/// Compiles what `current` revisions need and is not in the cache, and shows them in `handlers`.
///
/// A component that this version refuses is left out and told; its jobs fail until another
/// revision is deployed.
pub async fn restore(
    handlers: &Handlers,
    cache: &Cache,
    current: Vec<(Revision, Vec<u8>)>,
) -> Result<(), CompileError> {
    let mut revisions = Vec::with_capacity(current.len());
    for (revision, bytes) in current {
        match program(handlers, cache, revision.digest, &bytes).await {
            Ok(_) => {}
            Err(error @ CompileError::Cache { .. }) => return Err(error),
            Err(error) => {
                let component = revision.component.as_str();
                tracing::error!(component, %error, "a deployed component does not work any more");
            }
        }
        revisions.push(revision);
    }
    handlers.replace(revisions);
    Ok(())
}

/// Returns the compiled component, compiled now if it is not in the cache.
async fn program(
    handlers: &Handlers,
    cache: &Cache,
    digest: Digest,
    bytes: &[u8],
) -> Result<Arc<Program>, CompileError> {
    let (path, sha256) = match cache.get(digest) {
        Some(compiled) => compiled,
        None => cache.compile(digest, bytes).await?,
    };
    Ok(handlers.add_program(digest, path, sha256))
}

impl Shared {
    async fn deploy(
        &self,
        name: Name,
        mut manifest: Manifest,
        bytes: Vec<u8>,
    ) -> Result<Deployed, DeployError> {
        if bytes.len() > COMPONENT_BYTES_MAX {
            return Err(DeployError::TooLarge { bytes: bytes.len() });
        }
        if let Some(other) = manifest.name.take().filter(|other| *other != name) {
            return Err(DeployError::OtherName {
                manifest: other,
                asked: name,
            });
        }
        manifest.name = Some(name.clone());
        manifest::check(&manifest).map_err(DeployError::Manifest)?;
        let digest = Digest(Sha256::digest(&bytes).into());

        let _one = self.one_at_a_time.lock().await;
        let current = self.current(&name).await?;
        let compiled = program(&self.handlers, &self.cache, digest, &bytes)
            .await
            .map_err(DeployError::Compile)?;
        if let Some(same) = current
            .as_ref()
            .filter(|current| current.digest == digest && current.manifest == manifest)
        {
            return Ok(Deployed {
                revision: same.clone(),
                unchanged: true,
                grants_added: Vec::new(),
            });
        }
        let handlers = self
            .cells
            .describe(&compiled)
            .await
            .map_err(DeployError::Describe)?;
        offer(&handlers).map_err(DeployError::Offer)?;
        manifest::fits(&manifest, &handlers).map_err(DeployError::Manifest)?;
        let grants_added = grants::added(current.as_ref(), &manifest, &handlers);
        let revision = Revision {
            component: name,
            revision: 0,
            digest,
            manifest,
            handlers,
            deployed_at: Time(0),
        };
        let command = Command::Deploy {
            revision: Box::new(revision),
            bytes,
        };
        self.change(command, grants_added).await
    }

    async fn rollback(&self, name: Name, number: u32) -> Result<Deployed, DeployError> {
        let _one = self.one_at_a_time.lock().await;
        let asked = name.clone();
        let (revisions, current) = self
            .dispatch
            .read(move |reader| reader.revisions(&asked))
            .await
            .map_err(unread)?;
        let mut grants_added = Vec::new();
        if let Some(target) = revisions.iter().find(|known| known.revision == number) {
            let digest = target.digest;
            let bytes = self
                .dispatch
                .read(move |reader| reader.component_bytes(digest))
                .await
                .map_err(unread)?
                .unwrap_or_default();
            program(&self.handlers, &self.cache, digest, &bytes)
                .await
                .map_err(DeployError::Compile)?;
            let before = revisions.iter().find(|known| known.revision == current);
            grants_added = grants::added(before, &target.manifest, &target.handlers);
        }
        // Whether there is such a revision is for the rules to say.
        let command = Command::Rollback {
            component: name,
            revision: number,
        };
        self.change(command, grants_added).await
    }

    async fn remove(&self, name: Name) -> Result<(), DeployError> {
        let _one = self.one_at_a_time.lock().await;
        let command = Command::Remove { component: name };
        self.dispatch
            .submit(command)
            .await
            .map_err(DeployError::Submit)?;
        self.refresh().await
    }

    async fn change(
        &self,
        command: Command,
        grants_added: Vec<String>,
    ) -> Result<Deployed, DeployError> {
        let reply = self
            .dispatch
            .submit(command)
            .await
            .map_err(DeployError::Submit)?;
        self.refresh().await?;
        let Reply::Deployed {
            revision,
            unchanged,
        } = reply
        else {
            let message = "it answered something else than was asked".to_owned();
            return Err(DeployError::Store(message));
        };
        Ok(Deployed {
            revision: *revision,
            unchanged,
            grants_added,
        })
    }

    async fn current(&self, name: &Name) -> Result<Option<Revision>, DeployError> {
        let revisions = self
            .dispatch
            .read(|reader| reader.components())
            .await
            .map_err(unread)?;
        Ok(revisions
            .into_iter()
            .find(|revision| revision.component == *name))
    }

    /// Shows what is deployed now.
    async fn refresh(&self) -> Result<(), DeployError> {
        let revisions = self
            .dispatch
            .read(|reader| reader.components())
            .await
            .map_err(unread)?;
        self.handlers.replace(revisions);
        Ok(())
    }
}

#[expect(clippy::needless_pass_by_value, reason = "it is the end of the error")]
fn unread(error: StoreError) -> DeployError {
    DeployError::Store(error.to_string())
}

/// Checks what a component says it offers.
fn offer(handlers: &[HandlerInfo]) -> Result<(), String> {
    if handlers.is_empty() {
        return Err("no handlers".to_owned());
    }
    if handlers.len() > HANDLERS_MAX {
        let count = handlers.len();
        return Err(format!(
            "{count} handlers, at most {HANDLERS_MAX} are taken"
        ));
    }
    for (index, handler) in handlers.iter().enumerate() {
        let name = &handler.name;
        if handlers[..index]
            .iter()
            .any(|earlier| earlier.name == *name)
        {
            return Err(format!("the handler {name} twice"));
        }
        for (what, schema) in [
            ("params", &handler.params_schema),
            ("result", &handler.result_schema),
        ] {
            if let Some(Err(message)) = schema.as_ref().map(Schema::compile) {
                return Err(format!(
                    "a {what} schema of {name} that is not taken: {message}"
                ));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
