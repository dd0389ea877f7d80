//! Secrets that handlers see: those that their manifest names and the configuration allows. The first time in an
//! attempt is in the audit before the handler gets the value, which is then hidden in what the attempt leaves.

use host_core::desk::{DeskError, DeskErrorKind, DeskPass};
use host_core::http_grant::is_secret_name;
use host_core::secret::Secret;
use host_engine::audit::{AddNote, DONE, Note};

use super::{Shared, desk_error};

/// The verb of the audit.
const REVEAL: &str = "reveal";

/// Returns a secret with its value.
pub(super) async fn reveal(
    shared: &Shared,
    pass: &DeskPass,
    name: String,
) -> Result<Secret, DeskError> {
    let handler = &pass.handler;
    if !is_secret_name(&name) {
        let message = "a secret's name has 1–64 letters, digits, `-` and `_`";
        return Err(DeskError::new(DeskErrorKind::InvalidRequest, message));
    }
    if !pass.secrets.contains(&name) {
        let message = format!(
            "the manifest does not let {handler} see the secret {name}; add it to secrets in [handlers.{handler}]"
        );
        return Err(DeskError::new(DeskErrorKind::NotGranted, message));
    }
    let seen = pass.writes.revealed();
    if let Some(value) = seen.as_ref().and_then(|seen| seen.value(&name)) {
        let value = value.to_owned();
        return Ok(Secret { name, value });
    }
    let (secrets, wanted) = (shared.api.secrets.clone(), name.clone());
    let value = tokio::task::spawn_blocking(move || secrets.value(&wanted))
        .await
        .ok()
        .flatten()
        .ok_or_else(|| {
            let message = format!("this host cannot read the secret {name}; its log says why");
            DeskError::new(DeskErrorKind::Unavailable, message)
        })?;
    let origin = pass.writes.origin();
    let reveal = Note {
        principal: origin.map(|origin| origin.principal).unwrap_or_default(),
        ..Note::new(REVEAL, format!("secret {name}"))
    };
    let note = Box::new(reveal.detail(format!("to {handler} for job {}", pass.job)));
    let outcome = DONE.to_owned();
    let noted = shared.api.dispatch.submit(AddNote { note, outcome });
    noted.await.map_err(|error| desk_error(&error.into()))?;
    let secret = Secret { name, value };
    pass.writes.reveal(secret.clone());
    Ok(secret)
}
