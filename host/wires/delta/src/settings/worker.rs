//! The keys of the runner role: the orchestrators of `host serve`, and the options of `host worker delta`.

#[cfg(test)]
mod tests;

use host_core::name::Name;
use host_wire_kit::http_client::BaseUrl;
use host_wire_kit::secret::Secret;
use host_wire_kit::section::{At, ConfigError, Number, SecretText, Section};

use super::orchestrator::needed;
use super::{Keys, OrchestratorKeys, WorkerKeys};
use crate::messages::read::check_runner_id;
use crate::settings::tokens;
use crate::tags::Tags;
use crate::worker::{FileJob, Peer};

/// How many concurrent leases of one orchestrator there are.
pub(super) type Concurrency = Number<1, 256, 1>;

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
    /// Interprets the keys and reads the files with tokens.
    pub(crate) fn read(section: &Section<'_>, keys: Keys) -> Result<Self, ConfigError> {
        let allow_plaintext = keys.allow_plaintext;
        let peers = keys
            .orchestrators
            .into_iter()
            .map(|(name, table)| {
                let peer = peer_of_serve(section, &name, table)?;
                peer.check(allow_plaintext)
            })
            .collect::<Result<_, _>>()?;
        let peer = peer_of_worker(section, &keys.worker)?;
        Ok(Self {
            peers,
            peer: peer.map(|peer| peer.check(allow_plaintext)).transpose()?,
            file: keys.worker.lease.map(|lease| FileJob {
                lease,
                log: keys.worker.log,
            }),
        })
    }
}

/// An orchestrator, as the configuration names it.
struct NamedPeer {
    url: At<BaseUrl>,
    runner_id: At<String>,
    token: Option<SecretText>,
    capabilities: Tags,
    concurrency: Concurrency,
}

impl NamedPeer {
    fn check(self, allow_plaintext: bool) -> Result<Peer, ConfigError> {
        let origin = self.url.origin();
        if origin.is_exposed() && !allow_plaintext {
            return Err(self.url.hidden(format!(
                "others could read tokens, jobs and logs on the way to {origin}; name an https:// URL, or set \
                 protocol.delta.allow_plaintext = true"
            )));
        }
        let runner_id = check_runner_id(self.runner_id.value.clone()).map_err(|_| {
            let wanted = "expected 1–128 printable ASCII characters without blanks";
            self.runner_id.refuse(wanted)
        });
        Ok(Peer {
            runner_id: runner_id?,
            token: self.token.as_ref().map(token).transpose()?,
            url: self.url.value,
            capabilities: self.capabilities.0,
            concurrency: self.concurrency.count(),
        })
    }
}

fn peer_of_serve(
    section: &Section<'_>,
    name: &Name,
    table: At<OrchestratorKeys>,
) -> Result<NamedPeer, ConfigError> {
    let stated = section.secret(table.token_file.as_ref(), table.token_env.as_ref())?;
    let secret = needed(stated, &table)?;
    let missing = |key: &str| table.hidden_key(key, format!("the orchestrator {name} requires it"));
    Ok(NamedPeer {
        url: table.url.clone().ok_or_else(|| missing("url"))?,
        runner_id: table
            .runner_id
            .clone()
            .ok_or_else(|| missing("runner_id"))?,
        token: Some(secret),
        concurrency: table.concurrency,
        capabilities: table.value.capabilities,
    })
}

fn peer_of_worker(
    section: &Section<'_>,
    keys: &WorkerKeys,
) -> Result<Option<NamedPeer>, ConfigError> {
    let Some(url) = keys.orchestrator.clone() else {
        return Ok(None);
    };
    let missing = || {
        let message = "the runner requires a name; set --runner-id";
        ConfigError::hidden("protocol.delta.worker.runner_id", message)
    };
    Ok(Some(NamedPeer {
        url,
        runner_id: keys.runner_id.clone().ok_or_else(missing)?,
        token: section.secret(None, keys.token_env.as_ref())?,
        capabilities: keys.capabilities.clone(),
        concurrency: keys.concurrency,
    }))
}

fn token(secret: &SecretText) -> Result<Secret, ConfigError> {
    let lines = tokens::lines(secret.text()?).map_err(|why| secret.refused(why))?;
    match lines.as_slice() {
        [only] => Ok(Secret((*only).to_owned())),
        _ => Err(secret.refused("expected one token, got several")),
    }
}
