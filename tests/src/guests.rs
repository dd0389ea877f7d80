//! Finds the components that `cargo xtask guests` builds, and assembles those in `tests/guests/wat`.

use std::path::{Path, PathBuf};

/// Returns the folder of the programs that were built with this test, such as `target/debug`.
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

/// Assembles the component `name` in `tests/guests/wat`.
///
/// # Panics
///
/// If the file does not exist or is invalid.
pub fn from_wat(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("guests/wat");
    let path = folder.join(format!("{name}.wat"));
    wat::parse_file(&path).unwrap_or_else(|error| panic!("{error}"))
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

#[cfg(test)]
mod tests {
    use super::from_wat;

    #[test]
    fn all_wat_components_can_be_assembled() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/guests/wat");
        let mut names = Vec::new();
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            let name = path.file_stem().unwrap().to_str().unwrap().to_owned();
            let layer = from_wat(&name)[6];
            assert_eq!(layer, u8::from(name != "core-module"), "{name}");
            names.push(name);
        }
        assert!(names.len() > 20, "{names:?}");
    }
}
