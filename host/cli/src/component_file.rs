//! A component in a file, and the signature beside it.

use std::path::Path;

use host_console::error::{CliError, Exit};
use host_console::plain;
use host_server::folder::signature_of;

/// Reads a component from a file.
pub(crate) fn component(path: &Path) -> Result<Vec<u8>, CliError> {
    // Reading a pipe or a device may never end.
    let regular = std::fs::metadata(path).and_then(|metadata| {
        if metadata.is_file() {
            std::fs::read(path)
        } else {
            Err(std::io::Error::other("it is not a file"))
        }
    });
    regular.map_err(|error| {
        let shown = path.display().to_string();
        let doing = format!("read the component {}", plain::line(&shown));
        CliError::new(Exit::Usage, doing, error)
            .next("give the path of the .wasm file that your build wrote")
    })
}

/// Reads the signature of a file: that in `given`, or the one beside the file, if there is one.
pub(crate) fn signature(file: &Path, given: Option<&Path>) -> Result<Option<String>, CliError> {
    let beside = signature_of(file);
    let path = given.unwrap_or(&beside);
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if given.is_none() && error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => {
            let shown = path.display().to_string();
            let doing = format!("read the signature {}", plain::line(&shown));
            Err(CliError::new(Exit::Usage, doing, error)
                .next("give the path of the file that `minisign -Sm` wrote"))
        }
    }
}
