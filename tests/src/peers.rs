//! Where the programs of others are that `cargo xtask test` installs.

use std::path::PathBuf;

use crate::guests::built;

/// Returns the folder of one release of RRQ: a Python environment with its orchestrator.
///
/// # Panics
///
/// If it has not been installed, with the command that installs it.
pub fn rrq(release: &str) -> PathBuf {
    let folder = built("peers").join(format!("rrq-{release}"));
    assert!(
        folder.join("complete").exists(),
        "{} is missing: run `cargo xtask test peers` first",
        folder.display()
    );
    folder
}
