//! The options that allow what handlers may use of this machine, for a single run and for a host of a developer.

use std::collections::BTreeMap;

use clap::Args;
use host_core::name::Name;
use host_wire_kit::section::Stated;

/// What manifests may grant, and the secrets of requests.
#[derive(Debug, Default, Args)]
pub(crate) struct GrantOptions {
    /// Let the manifest grant directories below this one (repeatable)
    #[arg(long, value_name = "DIR")]
    grant_read: Vec<String>,
    /// Let the manifest grant this environment variable (repeatable)
    #[arg(long, value_name = "NAME")]
    grant_env: Vec<String>,
    /// Let the manifest grant requests to this server (repeatable)
    #[arg(long, value_name = "ORIGIN")]
    grant_http: Vec<String>,
    /// Let the manifest grant connections to this server, for example db.internal:5432 (repeatable)
    #[arg(long, value_name = "SERVER")]
    grant_tcp: Vec<String>,
    /// Let requests and connections reach this network, for example 127.0.0.0/8 (repeatable)
    #[arg(long, value_name = "NETWORK", alias = "grant-http-networks")]
    grant_networks: Vec<String>,
    /// Give requests and logins the secret NAME from this environment variable (repeatable)
    #[arg(long = "secret", value_name = "NAME=VARIABLE", value_parser = parse_secret)]
    pub(crate) secrets: Vec<(Name, String)>,
}

impl GrantOptions {
    /// Adds directories and variables.
    pub(crate) fn add(&mut self, dirs: Vec<String>, variables: Vec<String>) {
        self.grant_read.extend(dirs);
        self.grant_env.extend(variables);
    }

    /// Returns the keys of the configuration that the options set.
    pub(crate) fn values(&self) -> BTreeMap<String, Stated> {
        let keys = [
            ("grants.read_roots", "grant-read", &self.grant_read),
            ("grants.env", "grant-env", &self.grant_env),
            ("grants.http", "grant-http", &self.grant_http),
            ("grants.tcp", "grant-tcp", &self.grant_tcp),
            ("grants.networks", "grant-networks", &self.grant_networks),
        ];
        let given = keys.into_iter().filter(|(.., texts)| !texts.is_empty());
        given
            .map(|(key, flag, texts)| (key.to_owned(), Stated::by_flag(flag, texts.join(","))))
            .collect()
    }
}

/// Reads `NAME=VARIABLE`.
fn parse_secret(text: &str) -> Result<(Name, String), String> {
    let (name, variable) = text
        .split_once('=')
        .ok_or("expected NAME=VARIABLE, like stripe=STRIPE_KEY")?;
    let name = name.parse::<Name>().map_err(|error| error.to_string())?;
    Ok((name, variable.to_owned()))
}
