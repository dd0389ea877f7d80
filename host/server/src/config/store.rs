//! Which store keeps the jobs: the data directory's own, or a database.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use host_store::postgres::target::Target;
use host_wire_kit::section::{At, ConfigError, Section};
use host_wire_kit::settings;

settings! {
    pub(super) struct StoreKeys "store." {
        /// The database that keeps jobs and components instead of the data directory: postgres://USER@HOST/DATABASE. Give a password in url_file, in the variable or in the file of PGPASSFILE, never as a flag
        url ["store"] "URL": Option<At<String>>,
        /// A file with this address, which only the host may read
        url_file "PATH": Option<At<PathBuf>>,
        /// Whether to use a database with fsync or synchronous_commit off, which may lose acknowledged jobs
        allow_unsafe: bool,
        /// Whether to poll the database for changes by other hosts instead of using LISTEN; automatic behind a pooler
        poll: bool,
        /// The address of the same database without the pooler, for one connection with LISTEN. Its password may be in the file of PGPASSFILE
        direct_url "URL": Option<At<String>>,
    }
}

/// A database that keeps the jobs.
#[derive(Clone, Debug)]
pub struct Database {
    /// Its address.
    pub target: Target,
    /// Whether to accept a server that may lose acknowledged data.
    pub allow_unsafe: bool,
    /// Whether the server sends hints about changes by other hosts.
    pub listen: bool,
    /// The address for hints, if it is another one.
    pub hints: Option<Target>,
}

/// Interprets the section. Returns `None` if the data directory keeps the jobs.
pub(super) fn database(
    section: &Section<'_>,
    keys: &StoreKeys,
) -> Result<Option<Database>, ConfigError> {
    let Some(url) = section.text_or_file(keys.url.as_ref(), keys.url_file.as_ref())? else {
        return Ok(None);
    };
    let parse = |url: &At<String>| target_of(section, url);
    if let Some(path) = &keys.url_file {
        Target::check_file(path).map_err(|error| path.hidden(error.to_string()))?;
    }
    let target = parse(&url)?;
    if keys.url.as_ref().is_some_and(At::is_flag) && Target::has_password(&url) {
        let message = "other users can see command-line flags; put the password in store.url_file, \
                       in HOST_STORE_URL or in the file of PGPASSFILE";
        return Err(url.hidden(message));
    }
    Ok(Some(Database {
        target,
        hints: keys.direct_url.as_ref().map(parse).transpose()?,
        allow_unsafe: keys.allow_unsafe,
        listen: !keys.poll,
    }))
}

/// Interprets the address of a database, whose password may be in the file of `PGPASSFILE`.
pub(super) fn target_of(section: &Section<'_>, url: &At<String>) -> Result<Target, ConfigError> {
    let passfile = passfile(|name| section.variable(name));
    let refused = |error| url.hidden(format!("invalid database URL: {error}"));
    let target = Target::parse(url, passfile.as_deref()).map_err(refused)?;
    Ok(target.named_by(&url.origin))
}

/// Returns the file with passwords that other clients of `PostgreSQL` read, by the variables of the environment.
pub fn passfile<'a>(variable: impl Fn(&str) -> Option<&'a str>) -> Option<PathBuf> {
    let given = variable("PGPASSFILE").map(PathBuf::from);
    given.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".pgpass")))
}
