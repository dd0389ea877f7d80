//! Contexts: hosts by name, each with how to reach it and the file of its token. They are kept in
//! `$XDG_CONFIG_HOME/host/contexts.toml`, which only its user may read.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::error::{CliError, Exit};
use crate::plain;

/// One host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Context {
    pub server: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub token_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_cert: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub client_key: Option<PathBuf>,
}

/// All contexts, and which is used if none is named.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Contexts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub current: Option<String>,
    pub contexts: BTreeMap<String, Context>,
}

impl Contexts {
    /// Reads the contexts of the user. There are none without a file.
    pub fn load() -> Result<Self, CliError> {
        let Some(path) = path() else {
            return Ok(Self::default());
        };
        let failed = |cause: &dyn std::fmt::Display| {
            let doing = format!(
                "read the contexts in {}",
                plain::line(&path.to_string_lossy())
            );
            CliError::new(Exit::Usage, doing, cause)
        };
        match fs::read_to_string(&path) {
            Ok(text) => toml::from_str(&text).map_err(|error| failed(&error.message())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(failed(&error)),
        }
    }

    /// Writes them, so that only the user can read them.
    pub fn save(&self) -> Result<(), CliError> {
        let none = || {
            io::Error::new(
                ErrorKind::NotFound,
                "neither XDG_CONFIG_HOME nor HOME is set",
            )
        };
        let written = path().ok_or_else(none).and_then(|path| {
            let text = toml::to_string(self).map_err(io::Error::other)?;
            write(&path, &text)
        });
        written.map_err(|error| CliError::new(Exit::Failed, "keep the contexts", error))
    }

    /// Returns a context by its name.
    pub fn get(&self, name: &str) -> Result<&Context, CliError> {
        self.contexts.get(name).ok_or_else(|| {
            let doing = format!("use the context {}", plain::line(name));
            CliError::new(Exit::NotFound, doing, "no context has this name")
                .next("`host context ls` lists the contexts")
        })
    }
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let partial = path.with_extension("toml.partial");
    let _left_from_before = fs::remove_file(&partial);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, path)
}

/// Reads a variable of the user's environment. An empty one counts as none.
#[expect(
    clippy::disallowed_methods,
    reason = "what is read is not the configuration of a host"
)]
pub(crate) fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name).filter(|text| !text.is_empty())
}

/// Returns where the contexts are kept.
pub fn path() -> Option<PathBuf> {
    let base = match (variable("XDG_CONFIG_HOME"), variable("HOME")) {
        (Some(config), _) => PathBuf::from(config),
        (None, Some(home)) => PathBuf::from(home).join(".config"),
        (None, None) => return None,
    };
    Some(base.join("host/contexts.toml"))
}
