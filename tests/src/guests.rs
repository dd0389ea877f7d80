//! Where the components are that `cargo xtask guests` builds.

use std::path::{Path, PathBuf};

/// Returns the folder of the programs this test was built with: `target/debug` or alike.
pub(crate) fn programs() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows its own path");
    let folder = test.parent().expect("a program is in a folder");
    match folder.file_name() {
        Some(name) if name == "deps" => folder.parent().unwrap_or(folder).to_owned(),
        _ => folder.to_owned(),
    }
}

/// Returns the path of the component `name`.
///
/// # Panics
///
/// If it has not been built, with the command that builds it.
pub fn component(name: &str) -> PathBuf {
    let path = folder().join(format!("{name}.wasm"));
    assert!(
        path.exists(),
        "{} is missing: run `cargo xtask guests` first",
        path.display()
    );
    path
}

/// Returns the folder with all components of the repository.
pub fn folder() -> PathBuf {
    let programs = programs();
    programs
        .parent()
        .map_or_else(|| Path::new("target").to_owned(), Path::to_owned)
        .join("guests")
}
