//! Keeps the contexts of the user, so that only the user can read them.

use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

use host_api::client::{Contexts, contexts_path};

use crate::error::{CliError, Exit};

/// Writes them.
pub fn save(contexts: &Contexts) -> Result<(), CliError> {
    let none = || {
        io::Error::new(
            ErrorKind::NotFound,
            "neither XDG_CONFIG_HOME nor HOME is set",
        )
    };
    let written = contexts_path().ok_or_else(none).and_then(|path| {
        let text = toml::to_string(contexts).map_err(io::Error::other)?;
        write(&path, &text)
    });
    written.map_err(|error| CliError::new(Exit::Failed, "keep the contexts", error))
}

fn write(path: &Path, text: &str) -> io::Result<()> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(folder)?;
    let partial = path.with_extension("toml.partial");
    // An interrupted command may have left it.
    let _ = fs::remove_file(&partial);
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&partial)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    fs::rename(&partial, path)
}
