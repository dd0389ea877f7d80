//! Finds the components that `cargo xtask guests` builds.

use std::path::{Path, PathBuf};

/// Returns the folder of the programs that were built with this one, such as `target/debug`. Cargo
/// puts tests and examples into folders below it.
pub(crate) fn programs() -> PathBuf {
    let own = std::env::current_exe().expect("a program knows its own path");
    let folder = own.parent().expect("a program is in a folder");
    match folder.file_name() {
        Some(name) if name == "deps" || name == "examples" => {
            folder.parent().unwrap_or(folder).to_owned()
        }
        _ => folder.to_owned(),
    }
}

/// Returns the path of the component `name`.
///
/// # Panics
///
/// If it has not been built. The message names the command that builds it.
pub fn component(name: &str) -> PathBuf {
    let path = folder().join(format!("{name}.wasm"));
    assert!(
        path.exists(),
        "{} is missing: run `cargo xtask guests` first",
        path.display()
    );
    path
}

/// Returns the folder with all built components.
pub fn folder() -> PathBuf {
    built("guests")
}

/// Returns a folder that xtask creates beside the programs, such as `target/NAME`.
pub(crate) fn built(name: &str) -> PathBuf {
    let programs = programs();
    programs
        .parent()
        .map_or_else(|| Path::new("target").to_owned(), Path::to_owned)
        .join(name)
}
