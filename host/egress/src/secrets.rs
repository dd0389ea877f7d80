//! The secrets that requests and logins of grants carry.

use std::collections::{BTreeMap, BTreeSet};

use host_core::egress::{HttpError, HttpErrorKind, Pass};
use host_core::http_grant::{HeaderTemplate, HttpGrant};
use host_core::secret::{Revealed, Secret};

/// The secrets by name.
#[derive(Default)]
pub(crate) struct Secrets {
    current: BTreeMap<String, String>,
    /// The values before those: servers may know them still.
    replaced: BTreeMap<String, String>,
}

impl Secrets {
    /// Sets the value of a secret.
    pub(crate) fn set(&mut self, name: String, value: String) {
        if let Some(before) = self.current.insert(name.clone(), value) {
            self.replaced.insert(name, before);
        }
    }

    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.current.get(name).map(String::as_str)
    }

    /// Returns a text with its secrets.
    pub(crate) fn fill(&self, template: &HeaderTemplate) -> Result<String, HttpError> {
        template
            .fill(|secret| self.get(secret))
            .map_err(|secret| unset(format!("this host has no secret {secret}")))
    }

    /// Returns the values that no server may give away to a run with this pass: those that any of its requests sends.
    pub(crate) fn reveal(&self, pass: &Pass) -> Revealed {
        let names: BTreeSet<&str> = pass.grants.iter().flat_map(HttpGrant::secrets).collect();
        let mut all = Revealed::default();
        for name in names {
            for values in [&self.current, &self.replaced] {
                if let Some(value) = values.get(name).cloned() {
                    let name = name.to_owned();
                    all.add(Secret { name, value });
                }
            }
        }
        all
    }
}

/// Returns the error of a grant whose secret is missing or unfit.
pub(crate) fn unset(message: String) -> HttpError {
    HttpError::new(HttpErrorKind::NotGranted, message)
}
