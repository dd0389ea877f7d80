//! The first token: a host without a token that can create others writes one to a file.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use host_core::access::{Role, Verb};
use host_dispatch::SubmitError;
use host_engine::audit::{HOST, Note};
use host_engine::token::{PutToken, Rights, Token, TokenText, token_id};
use host_engine::{Ask as _, StoreError};
use host_runtime::{file, ids};
use thiserror::Error;

use super::Auth;

/// The file of the first token, in the data directory.
pub const ADMIN_TOKEN: &str = "admin.token";

/// How long the first token lasts, in milliseconds: a day.
const LASTS_MS: u64 = 24 * 3_600_000;

/// Returns whether a token is the first one of a host.
pub(crate) fn is_first(token: &Token) -> bool {
    token.created_by == HOST
}

/// Why there is no first token.
#[derive(Debug, Error)]
pub enum FirstTokenError {
    #[error(transparent)]
    Store(StoreError),
    #[error("cannot keep the first token: {0}")]
    Submit(SubmitError),
    #[error("cannot write the first token to {}: {error}", .path.display())]
    File { path: PathBuf, error: io::Error },
}

impl Auth {
    /// Reads the tokens. If none of them could make others, makes one for a day and writes it to `path`.
    pub async fn start(&self, path: &Path) -> Result<(), FirstTokenError> {
        if !self.requires_tokens() {
            return Ok(());
        }
        self.reload().await.map_err(FirstTokenError::Store)?;
        let now = self.0.clock.now();
        let may_make = |token: &Token| token.rights.verbs.has(Verb::Tokens);
        if self
            .list()
            .iter()
            .any(|kept| may_make(&kept.token) && !kept.token.has_ended(now))
        {
            return Ok(());
        }
        let id = token_id(&ids::key());
        let text = TokenText::new(&id, &ids::key());
        let written = write(path, &text);
        written.map_err(|error| FirstTokenError::File {
            path: path.to_owned(),
            error,
        })?;
        let token = Token {
            id: id.clone(),
            hash: text.hash(),
            name: "admin".to_owned(),
            created_by: HOST.to_owned(),
            created_at: now,
            rights: Rights {
                verbs: Role::Admin.verbs(),
                expires_at: Some(now.plus_ms(LASTS_MS)),
                ..Rights::default()
            },
            previous: None,
            sessions: Vec::new(),
        };
        let put = PutToken {
            token: Box::new(token),
            is_new: true,
        };
        let note = Note::by_host(Verb::Tokens.as_str(), format!("token {id}"));
        let put = put.noted(note.detail("the first token of the host"));
        let submitted = self.0.dispatch.submit(put).await;
        submitted.map_err(FirstTokenError::Submit)?;
        self.reload().await.map_err(FirstTokenError::Store)?;
        tracing::warn!(
            path = %path.display(),
            "no token can create others; this file has a new one: create your own within 24 hours, then delete it"
        );
        Ok(())
    }
}

/// Writes the token so that only the host's user can read it, at no moment otherwise.
fn write(path: &Path, text: &TokenText) -> io::Result<()> {
    file::replace(path, |file| writeln!(file, "{}", text.expose()))
}
