//! What is deployed when the host starts.

use std::collections::BTreeSet;

use host_cells::compile::CompileError;
use host_cells::deploy::examine::Examiner;
use host_cells::run::handlers::{Flaw, Handlers};
use host_engine::component::tables::{Blob, read_deployed, read_revisions};
use host_engine::component::{Digest, Revision};
use host_engine::{Reader, StoreError};

/// Reads the current revisions, with the bytes of their components.
pub fn current(reader: &dyn Reader) -> Result<Vec<(Revision, Vec<u8>)>, StoreError> {
    let revisions = read_deployed(reader)?.into_iter();
    let with_bytes = revisions.map(|revision| {
        let blob: Option<Blob> = reader.get(revision.digest)?;
        Ok((revision, blob.map(|blob| blob.bytes).unwrap_or_default()))
    });
    with_bytes.collect()
}

/// Reads the digests of the components that any revision uses.
pub fn referenced(reader: &dyn Reader) -> Result<BTreeSet<Digest>, StoreError> {
    let mut kept = BTreeSet::new();
    for current in read_deployed(reader)? {
        let (revisions, _) = read_revisions(reader, &current.component)?;
        kept.extend(revisions.iter().map(|revision| revision.digest));
    }
    Ok(kept)
}

/// Compiles the components of `current` that are not in the cache, and publishes them in
/// `handlers`.
///
/// A component that cannot run here is logged and skipped. Its jobs fail until another revision is
/// deployed, or wait for other nodes if the store is shared.
pub async fn restore(
    handlers: &Handlers,
    examiner: &Examiner,
    current: Vec<(Revision, Vec<u8>)>,
) -> Result<(), CompileError> {
    let mut revisions = Vec::with_capacity(current.len());
    for (revision, bytes) in current {
        let compiled = examiner.program(handlers, revision.digest, &bytes).await;
        if let Err(error @ CompileError::Cache { .. }) = compiled {
            return Err(error);
        }
        let flaw = match compiled {
            Ok(_) => examiner.take_in(handlers, &revision, &bytes).await,
            Err(error) => Some(error.into()),
        };
        record_loaded(handlers, &revision, flaw);
        revisions.push(revision);
    }
    handlers.replace(revisions);
    Ok(())
}

/// Keeps whether a revision can run here.
pub(super) fn record_loaded(handlers: &Handlers, revision: &Revision, flaw: Option<Flaw>) {
    if let Some(flaw) = &flaw {
        let component = revision.component.as_str();
        let (number, reason) = (revision.revision, &flaw.message);
        tracing::error!(
            component,
            revision = number,
            reason,
            "a deployed component cannot run here"
        );
    }
    handlers.record_loaded(revision, flaw);
}
