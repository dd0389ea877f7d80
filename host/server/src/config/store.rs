//! Which store keeps the jobs: the data directory's own, or a database.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use host_store::postgres::target::Target;
use host_wires::wire::section::{ConfigError, Section};
use host_wires::wire::settings::Setting;

const URL: &str = "store.url";
const URL_FILE: &str = "store.url_file";
const ALLOW_UNSAFE: &str = "store.allow_unsafe";
const POLL: &str = "store.poll";
const DIRECT_URL: &str = "store.direct_url";

/// The keys of the section.
pub(super) const SETTINGS: [Setting; 5] = [
    Setting {
        key: URL,
        env: "HOST_STORE_URL",
        flag: Some("store"),
        value_name: "URL",
        default: "none",
        about: "The database that keeps jobs and components instead of the data directory: postgres://USER@HOST/DATABASE. Give a password in url_file, in the variable or in the file of PGPASSFILE, never as a flag",
    },
    Setting {
        key: URL_FILE,
        env: "HOST_STORE_URL_FILE",
        flag: None,
        value_name: "PATH",
        default: "none",
        about: "A file with this address, which only the host may read",
    },
    Setting {
        key: ALLOW_UNSAFE,
        env: "HOST_STORE_ALLOW_UNSAFE",
        flag: None,
        value_name: "BOOL",
        default: "false",
        about: "Whether to use a database with fsync or synchronous_commit off, which may lose acknowledged jobs: true or false",
    },
    Setting {
        key: POLL,
        env: "HOST_STORE_POLL",
        flag: None,
        value_name: "BOOL",
        default: "false",
        about: "Whether to poll the database for changes by other hosts instead of using LISTEN; automatic behind a pooler: true or false",
    },
    Setting {
        key: DIRECT_URL,
        env: "HOST_STORE_DIRECT_URL",
        flag: None,
        value_name: "URL",
        default: "none",
        about: "The address of the same database without the pooler, for one connection with LISTEN. Its password may be in the file of PGPASSFILE",
    },
];

/// A database that keeps the jobs.
#[derive(Clone, Debug)]
pub struct Database {
    /// Where it is.
    pub target: Target,
    /// Whether a server is accepted that may lose acknowledged data.
    pub allow_unsafe: bool,
    /// Whether the server gives hints of what other hosts do.
    pub listen: bool,
    /// Where hints come from, if not from there.
    pub hints: Option<Target>,
}

/// Reads the section. Returns `None` if the data directory keeps the jobs.
pub(super) fn database(values: &Section<'_>) -> Result<Option<Database>, ConfigError> {
    let stated = values.find(URL).filter(|(_, text)| !text.is_empty());
    let is_flag = stated.is_some() && values.is_flag(URL);
    let Some((origin, url)) = values.or_in_file(stated, URL_FILE)? else {
        return Ok(None);
    };
    let passfile = match values.variable("PGPASSFILE") {
        Some(path) => Some(PathBuf::from(path)),
        None => values
            .variable("HOME")
            .map(|home| PathBuf::from(home).join(".pgpass")),
    };
    let hidden = |origin: &str, message: String| ConfigError::Hidden {
        origin: origin.to_owned(),
        message,
    };
    let parse = |origin: &str, url: &str| {
        let refused = |error| hidden(origin, format!("invalid database URL: {error}"));
        let target = Target::parse(url, passfile.as_deref()).map_err(refused)?;
        Ok(target.named_by(origin))
    };
    if let Some(path) = values.path(URL_FILE) {
        Target::check_file(&path).map_err(|error| hidden(&origin, error.to_string()))?;
    }
    let target = parse(&origin, &url)?;
    if is_flag && Target::has_password(&url) {
        let message = "other users can see command-line flags; put the password in store.url_file, \
                       in HOST_STORE_URL or in the file of PGPASSFILE";
        return Err(hidden(&origin, message.to_owned()));
    }
    let hints = values.find(DIRECT_URL).filter(|(_, text)| !text.is_empty());
    let hints = hints.map(|(origin, url)| parse(&origin, url));
    Ok(Some(Database {
        target,
        hints: hints.transpose()?,
        allow_unsafe: values.switch(ALLOW_UNSAFE)?,
        listen: !values.switch(POLL)?,
    }))
}
