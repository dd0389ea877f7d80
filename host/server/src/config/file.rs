//! The configuration file, and the files that it names.

use std::io::{self, Read as _};
use std::path::Path;

use host_cells::deploy::manifest::values::find_inexpressible;
use host_core::encoding;
use host_wire_kit::section::{ConfigError, Document};

/// The largest file of the configuration, and of a secret or certificates that it names, in bytes.
const FILE_BYTES_MAX: u64 = 4 << 20;

pub(super) fn read(path: &Path) -> Result<Document, ConfigError> {
    let unreadable = |message: String| ConfigError::File {
        path: path.to_owned(),
        message,
    };
    let bytes = bytes(path).map_err(|error| unreadable(error.to_string()))?;
    let text = encoding::text(bytes).map_err(|other| unreadable(other.to_string()))?;
    parse(path, &text)
}

/// Parses the text of a file.
pub(super) fn parse(path: &Path, text: &str) -> Result<Document, ConfigError> {
    let document = Document::parse(path, text)?;
    if let Some(found) = find_inexpressible(text) {
        return Err(ConfigError::File {
            path: path.to_owned(),
            message: format!("line {}: {}", found.line, found.message),
        });
    }
    Ok(document)
}

/// Reads the file `path` up to a limit, because it may be an endless device.
pub(super) fn bytes(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path)?;
    file.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > FILE_BYTES_MAX {
        let message = format!("larger than {} MiB", FILE_BYTES_MAX >> 20);
        return Err(io::Error::other(message));
    }
    Ok(bytes)
}
