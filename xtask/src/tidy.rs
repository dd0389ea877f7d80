//! The project's rules about itself, as ordinary tests: arrows between crates, circles between
//! modules, names of wires, licences, scripts of pages, macros that print, sizes of files, words, promises about security, and links between documents.

mod arrows;
mod circles;
mod documents;
mod interface;
mod licenses;
mod names;
mod pages;
mod prints;
mod publish;
mod security;
mod text;
mod wires;
mod words;

use std::path::PathBuf;
use std::process::Command;

use crate::cargo::{output, root};

/// Returns the repository's files that end in `ending`, with their text.
fn files(ending: &str) -> Vec<(PathBuf, String)> {
    let listed = output(Command::new("git").current_dir(root()).args([
        "ls-files",
        "--cached",
        "--others",
        "--exclude-standard",
    ]))
    .unwrap();
    listed
        .lines()
        .filter(|path| path.ends_with(ending))
        .filter_map(|path| {
            let text = std::fs::read_to_string(root().join(path)).ok()?;
            Some((PathBuf::from(path), text))
        })
        .collect()
}
