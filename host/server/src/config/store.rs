//! Which store keeps the jobs: the data directory's own, or a database.

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use host_store::postgres::target::Target;
use host_wire_kit::section::{ConfigError, Section};
use host_wire_kit::settings;

settings! {
    pub(super) SETTINGS:
    URL = "store.url" ["store"], Text("URL"), "none",
        "The database that keeps jobs and components instead of the data directory: postgres://USER@HOST/DATABASE. Give a password in url_file, in the variable or in the file of PGPASSFILE, never as a flag";
    URL_FILE = "store.url_file", Text("PATH"), "none",
        "A file with this address, which only the host may read";
    ALLOW_UNSAFE = "store.allow_unsafe", Switch, "false",
        "Whether to use a database with fsync or synchronous_commit off, which may lose acknowledged jobs";
    POLL = "store.poll", Switch, "false",
        "Whether to poll the database for changes by other hosts instead of using LISTEN; automatic behind a pooler";
    DIRECT_URL = "store.direct_url", Text("URL"), "none",
        "The address of the same database without the pooler, for one connection with LISTEN. Its password may be in the file of PGPASSFILE";
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

/// Reads the section. Returns `None` if the data directory keeps the jobs.
pub(super) fn database(values: &Section<'_>) -> Result<Option<Database>, ConfigError> {
    let is_flag = values.find_text(&URL).is_some() && values.is_flag(&URL);
    let Some((origin, url)) = values.text_or_file(&URL, &URL_FILE)? else {
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
    if let Some(path) = values.path(&URL_FILE) {
        Target::check_file(&path).map_err(|error| hidden(&origin, error.to_string()))?;
    }
    let target = parse(&origin, &url)?;
    if is_flag && Target::has_password(&url) {
        let message = "other users can see command-line flags; put the password in store.url_file, \
                       in HOST_STORE_URL or in the file of PGPASSFILE";
        return Err(hidden(&origin, message.to_owned()));
    }
    let hints = values.find_text(&DIRECT_URL);
    let hints = hints.map(|(origin, url)| parse(&origin, url));
    Ok(Some(Database {
        target,
        hints: hints.transpose()?,
        allow_unsafe: values.switch(&ALLOW_UNSAFE)?,
        listen: !values.switch(&POLL)?,
    }))
}
