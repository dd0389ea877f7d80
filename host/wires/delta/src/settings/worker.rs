//! The keys of the runner role: the orchestrators of `host serve`, and the options of `host worker delta`.

#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use host_core::name::Name;
use host_wire_kit::http_client::BaseUrl;
use host_wire_kit::secret::Secret;
use host_wire_kit::section::{ConfigError, NamedTable, SecretText, Section, refused};

use super::orchestrator::{capabilities, needed, secret};
use crate::messages::read::check_runner_id;
use crate::settings::tokens;
use crate::settings::{
    ALLOW_PLAINTEXT, CAPABILITIES, CONCURRENCY, IGNORED, LEASE_FILE, LOG, ORCHESTRATOR,
    ORCHESTRATORS, RUNNER_ID, TOKEN_ENV,
};
use crate::tags::{self, TAGS_MAX};
use crate::worker::{FileJob, Peer};

/// The most concurrent leases of one orchestrator.
pub(super) const CONCURRENCY_MAX: u16 = 256;

/// The checked keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct WorkerSettings {
    /// The orchestrators of `host serve`.
    pub(crate) peers: Vec<Peer>,
    /// The orchestrator of `host worker`, if it is named.
    pub(crate) peer: Option<Peer>,
    pub(crate) file: Option<FileJob>,
}

impl WorkerSettings {
    /// Reads the keys and the files with tokens.
    pub(crate) fn read(section: &Section<'_>) -> Result<Self, ConfigError> {
        for setting in &IGNORED {
            if let Some((origin, value)) = section.find(setting) {
                tracing::info!(value, "{origin} is ignored");
            }
        }
        let tables = section.tables(ORCHESTRATORS);
        let peers = tables.map(|(name, table)| of_table(section, name, table));
        let file = section.path(&LEASE_FILE).map(|lease| FileJob {
            lease,
            log: section.path(&LOG),
        });
        Ok(Self {
            peers: peers.collect::<Result<_, _>>()?,
            peer: of_flags(section)?,
            file,
        })
    }
}

fn of_table(section: &Section<'_>, name: &Name, table: &NamedTable) -> Result<Peer, ConfigError> {
    let required = |key: &str| -> Result<&str, ConfigError> {
        let text = table.text(key)?;
        text.ok_or_else(|| ConfigError::Hidden {
            origin: table.origin(key),
            message: format!("the orchestrator {name} requires it"),
        })
    };
    let secret = needed(secret(section, table)?, table)?;
    let concurrency = table.number("concurrency", i64::from(CONCURRENCY_MAX))?;
    Ok(Peer {
        url: url(section, table.origin("url"), required("url")?)?,
        runner_id: runner_id(table.origin("runner_id"), required("runner_id")?)?,
        token: Some(token(&secret)?),
        capabilities: capabilities(table)?,
        concurrency: concurrency.unwrap_or(1),
    })
}

fn of_flags(section: &Section<'_>) -> Result<Option<Peer>, ConfigError> {
    let Some((origin, text)) = section.find(&ORCHESTRATOR) else {
        return Ok(None);
    };
    let url = url(section, origin, text)?;
    let Some((origin, text)) = section.find(&RUNNER_ID) else {
        return Err(ConfigError::Hidden {
            origin: RUNNER_ID.key.to_owned(),
            message: "the runner requires a name; set --runner-id".to_owned(),
        });
    };
    let runner_id = runner_id(origin, text)?;
    let secret = section.secret(None, Some(&TOKEN_ENV))?;
    Ok(Some(Peer {
        url,
        runner_id,
        token: secret.as_ref().map(token).transpose()?,
        capabilities: offered(section)?,
        concurrency: section.count(&CONCURRENCY)?,
    }))
}

fn url(section: &Section<'_>, origin: String, text: &str) -> Result<BaseUrl, ConfigError> {
    // The text may contain a password.
    let hidden = |message: String| ConfigError::Hidden { origin, message };
    let url: BaseUrl = match text.parse() {
        Ok(url) => url,
        Err(error) => {
            let message = format!("invalid orchestrator URL: {error}");
            return Err(hidden(message));
        }
    };
    if url.origin().is_exposed() && !section.switch(&ALLOW_PLAINTEXT)? {
        return Err(hidden(format!(
            "others could read tokens, jobs and logs on the way to {}; name an https:// URL, or set \
             {} = true",
            url.origin(),
            ALLOW_PLAINTEXT.key
        )));
    }
    Ok(url)
}

fn runner_id(origin: String, text: &str) -> Result<String, ConfigError> {
    let checked = check_runner_id(text.to_owned());
    checked.map_err(|_| {
        let wanted = "expected 1–128 printable ASCII characters without blanks";
        refused(origin, text, wanted)
    })
}

fn token(secret: &SecretText) -> Result<Secret, ConfigError> {
    let lines = tokens::lines(secret.text()?).map_err(|why| secret.refused(why))?;
    match lines.as_slice() {
        [only] => Ok(Secret((*only).to_owned())),
        _ => Err(secret.refused("expected one token, got several")),
    }
}

fn offered(section: &Section<'_>) -> Result<BTreeSet<String>, ConfigError> {
    let Some((origin, text)) = section.find(&CAPABILITIES) else {
        return Ok(BTreeSet::new());
    };
    let tags = text.split(',').map(str::trim).filter(|tag| !tag.is_empty());
    let tags: BTreeSet<String> = tags.map(str::to_owned).collect();
    let all_fit = tags.len() <= TAGS_MAX && tags.iter().all(|tag| tags::is_tag(tag));
    if all_fit && tags::conflict(&tags).is_none() {
        return Ok(tags);
    }
    let wanted = "expected tags of A-Z a-z 0-9 _ . : -, with one os: and one arch:";
    Err(refused(origin, text, wanted))
}
