//! Deploys in the audit, and new grants that need two principals: one tries to deploy and is refused, the other accepts.
//! The audit has the first, whichever node was asked.

use host_core::time::Time;
use host_engine::audit::{AddNote, Entry, Note};
use host_engine::component::Revision;
use host_engine::table::Range;
use host_engine::{Reader, StoreError, audit};
use serde::Deserialize;

use super::{Consent, DeployError, Deployed, Shared, unread};

/// How many entries of the audit are read at a time.
const READ: u32 = 1_000;

/// What an entry of the audit says of a deploy.
#[derive(Deserialize)]
struct Tried {
    principal: String,
    verb: String,
    object: String,
    outcome: String,
    detail: Option<String>,
}

/// Returns whether another principal has tried the same since then, and was refused in these words.
fn by_another(
    reader: &dyn Reader,
    note: &Note,
    since: Time,
    refusal: &str,
) -> Result<bool, StoreError> {
    let refusal = audit::cut(refusal.to_owned());
    let is_it = |entry: &Entry| {
        let read: Result<Tried, _> = serde_json::from_str(&entry.record);
        read.is_ok_and(|tried| {
            tried.principal != note.principal
                && tried.verb == note.verb
                && tried.object == note.object
                && tried.detail == note.detail
                && tried.outcome == refusal
        })
    };
    let mut after = 0;
    loop {
        let page = reader.list::<Entry>(Range::all().after(after).since(since).first(READ))?;
        let Some(last) = page.last() else {
            return Ok(false);
        };
        if page.iter().any(is_it) {
            return Ok(true);
        }
        after = last.number;
    }
}

impl Shared {
    /// Logs a change, or records that it was refused before it reached the store, which records the others.
    pub(super) async fn recorded(
        &self,
        note: Note,
        result: Result<Deployed, DeployError>,
    ) -> Result<Deployed, DeployError> {
        if let Err(error) = &result
            && !matches!(error, DeployError::Submit(_))
        {
            let outcome = audit::cut(error.to_string());
            let note = Box::new(note);
            // The refusal matters more than its record, which fails only with the store.
            let _ = self.dispatch.submit(AddNote { note, outcome }).await;
            return result;
        }
        if let Ok(deployed) = &result
            && !deployed.unchanged
            && note.principal != audit::HOST
        {
            let by = note.token_name.as_deref().unwrap_or(&note.principal);
            let Revision {
                component,
                revision,
                ..
            } = &deployed.revision;
            tracing::info!(%component, revision, by, "{} is current now", note.object);
        }
        result
    }

    /// Returns the note about a deploy with these new grants, if they are accepted.
    pub(super) async fn accept(
        &self,
        mut note: Note,
        added: &[String],
        consent: Consent,
    ) -> Result<Note, DeployError> {
        if added.is_empty() {
            return Ok(note);
        }
        let refusal = DeployError::NewGrants(added.to_vec());
        if !consent.new_grants {
            return Err(refusal);
        }
        if let Some(since) = consent.tried_since {
            let (asked, refusal) = (note.clone(), refusal.to_string());
            let scanning = self
                .dispatch
                .scan(move |reader| by_another(reader, &asked, since, &refusal));
            if !scanning.await.map_err(unread)? {
                return Err(DeployError::SecondPerson(added.to_vec()));
            }
        }
        let before = note.detail.take().unwrap_or_default();
        let accepted = added.join("; ");
        Ok(note.detail(format!("{before}; accepts grants: {accepted}")))
    }
}
