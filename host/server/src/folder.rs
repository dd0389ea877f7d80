//! A folder of components: `<name>.wasm`, with an optional manifest `<name>.toml`. A host deploys
//! the folder when it starts; a worker without a store only loads its handlers.

use std::path::{Path, PathBuf};
use std::{fs, io};

use host_cells::deploy::examine::{COMPONENT_BYTES_MAX, Candidate, Component, Examiner, Flaw};
use host_cells::deploy::manifest::{self, ManifestError};
use host_cells::run::handlers::Handlers;
use host_core::access::Verb;
use host_core::encoding;
use host_core::name::Name;
use host_dispatch::SubmitError;
use host_engine::Rejection;
use host_engine::audit::{HOST, Note};
use host_engine::component::{ComponentRefusal, Manifest, Release, Revision};
use thiserror::Error;

use crate::deploy::{Consent, DeployError, DeployedBy, Deployments};

/// Why a folder is not deployed.
#[derive(Debug, Error)]
pub enum FolderError {
    /// A file or the folder cannot be read.
    #[error("cannot read {}: {error}", .path.display())]
    Unreadable { path: PathBuf, error: io::Error },
    /// A manifest was rejected.
    #[error("{}: {error}", .path.display())]
    Manifest { path: PathBuf, error: ManifestError },
    /// A file's name is not a valid component name, and no manifest gives another.
    #[error("{}: not a valid component name; give one in a manifest beside it, `name = \"…\"`", .path.display())]
    Name { path: PathBuf },
    /// A component was rejected.
    #[error("{}: {error}", .path.display())]
    Deploy { path: PathBuf, error: DeployError },
}

/// One component of a folder.
#[derive(Debug)]
struct FolderComponent {
    name: Name,
    manifest: Manifest,
    component: Component,
}

/// Deploys all components of a folder, in order of name. Stops at the first that is rejected.
pub async fn deploy(folder: &Path, deployments: &Deployments) -> Result<(), FolderError> {
    for path in components(folder)? {
        let FolderComponent {
            name,
            manifest,
            component,
        } = read(&path)?;
        // The operator has put it there, and could not be prompted.
        let consent = Consent {
            new_grants: true,
            tried_since: None,
            unfit_jobs: true,
        };
        let note = Note::by_host(Verb::Deploy.as_str(), format!("component {name}"));
        let by = DeployedBy {
            note: note.detail("from the folder of components"),
            origin: None,
            release: Release {
                by: HOST.to_owned(),
                ..Release::default()
            },
        };
        let deployed = deployments
            .deploy(name, manifest, component, consent, by)
            .await
            .map_err(|error| FolderError::Deploy { path, error })?;
        let revision = &deployed.revision;
        tracing::info!(
            component = revision.component.as_str(),
            revision = revision.revision,
            handlers = revision.handlers.len(),
            unchanged = deployed.unchanged,
            handlers_removed = deployed.removed.len(),
            grants_added = deployed.grants_added.join("; "),
            grants_removed = deployed.grants_removed.join("; "),
            limits_changed = deployed.limits_changed.len(),
            "deployed"
        );
    }
    Ok(())
}

/// Loads the handlers of a folder without a store. Keeps nothing but compiled components.
pub async fn load(
    folder: &Path,
    examiner: &Examiner,
    handlers: &Handlers,
) -> Result<(), FolderError> {
    let mut revisions = Vec::new();
    for path in components(folder)? {
        let FolderComponent {
            name,
            manifest,
            component,
        } = read(&path)?;
        let revision = async {
            let candidate = Candidate::new(name, manifest, component)?;
            let revision = examiner.first_revision(handlers, candidate).await?;
            owned_once(&revisions, &revision)?;
            Ok(revision)
        };
        revisions.push(
            revision
                .await
                .map_err(|error| FolderError::Deploy { path, error })?,
        );
    }
    handlers.replace(revisions);
    Ok(())
}

/// Rejects a handler that an earlier component already has.
fn owned_once(earlier: &[Revision], new: &Revision) -> Result<(), DeployError> {
    for handler in new.handlers.iter().map(|handler| &handler.name) {
        let has = |revision: &&Revision| revision.handlers.iter().any(|it| it.name == *handler);
        if let Some(owner) = earlier.iter().find(has) {
            return Err(DeployError::Submit(SubmitError::Rejected(
                Rejection::Component(ComponentRefusal::HandlerOwned {
                    handler: handler.clone(),
                    owner: owner.component.clone(),
                }),
            )));
        }
    }
    Ok(())
}

fn components(folder: &Path) -> Result<Vec<PathBuf>, FolderError> {
    let unreadable = |error| FolderError::Unreadable {
        path: folder.to_owned(),
        error,
    };
    let mut paths = Vec::new();
    for entry in fs::read_dir(folder).map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        if path.extension().is_some_and(|ending| ending == "wasm") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

/// Returns where the signature of a file is, if it has one.
pub fn signature_of(file: &Path) -> PathBuf {
    let mut beside = file.as_os_str().to_owned();
    beside.push(".minisig");
    beside.into()
}

fn text(bytes: Vec<u8>) -> io::Result<String> {
    encoding::text(bytes).map_err(io::Error::other)
}

fn read(path: &Path) -> Result<FolderComponent, FolderError> {
    let unreadable = |path: &Path| {
        let path = path.to_owned();
        |error| FolderError::Unreadable { path, error }
    };
    let beside = path.with_extension("toml");
    let manifest = match fs::read(&beside).and_then(text) {
        Ok(text) => manifest::parse(&text).map_err(|error| FolderError::Manifest {
            path: beside,
            error,
        })?,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Manifest::default(),
        Err(error) => return Err(unreadable(&beside)(error)),
    };
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let name = match &manifest.name {
        Some(name) => name.clone(),
        None => stem
            .and_then(|stem| stem.parse().ok())
            .ok_or_else(|| FolderError::Name {
                path: path.to_owned(),
            })?,
    };
    let bytes = fs::metadata(path).map_err(unreadable(path))?.len();
    let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
    if bytes > COMPONENT_BYTES_MAX {
        return Err(FolderError::Deploy {
            path: path.to_owned(),
            error: DeployError::Flaw(Flaw::TooLarge { bytes }),
        });
    }
    let bytes = fs::read(path).map_err(unreadable(path))?;
    let beside = signature_of(path);
    let signature = match fs::read_to_string(&beside) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(unreadable(&beside)(error)),
    };
    Ok(FolderComponent {
        name,
        manifest,
        component: Component { bytes, signature },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_names_its_components() {
        let folder = tempfile::TempDir::new().unwrap();
        let put = |name: &str, text: &str| fs::write(folder.path().join(name), text).unwrap();
        put("b.wasm", "b");
        put("a.wasm", "a");
        put("a.toml", "name = \"other\"\n[defaults]\nmemory_mib = 8\n");
        put("b.wasm.minisig", "signed");
        put("notes.txt", "");
        let found: Vec<FolderComponent> = components(folder.path())
            .unwrap()
            .iter()
            .map(|path| read(path).unwrap())
            .collect();
        let names: Vec<&str> = found.iter().map(|found| found.name.as_str()).collect();
        assert_eq!(names, ["other", "b"]);
        assert_eq!(found[0].manifest.defaults.memory_mib, Some(8));
        assert_eq!(found[0].component.bytes, b"a");
        assert_eq!(found[0].component.signature, None);
        assert_eq!(found[1].component.signature.as_deref(), Some("signed"));
    }

    #[test]
    fn what_cannot_be_deployed_is_named() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("no name.wasm");
        fs::write(&path, "").unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(
            message.contains("no name.wasm") && message.contains("manifest"),
            "{message}"
        );
        fs::write(folder.path().join("no name.toml"), "x = 1").unwrap();
        let message = read(&path).unwrap_err().to_string();
        assert!(
            message.contains("no name.toml") && message.contains('x'),
            "{message}"
        );
        let missing = folder.path().join("missing");
        let message = components(&missing).unwrap_err().to_string();
        assert!(message.contains("missing"), "{message}");
    }
}
