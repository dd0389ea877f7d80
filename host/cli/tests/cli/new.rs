//! `host new`, `host build` and `host dev`, as far as they need no compiler.

use std::path::Path;

use tempfile::TempDir;

use crate::canned::{Transcript, run_alone};

fn run(dir: &Path, arguments: &[&str]) -> String {
    run_alone(arguments).replace(&dir.display().to_string(), "DIR")
}

#[test]
fn help() {
    let mut seen = Transcript::new("new_help");
    for noun in ["new", "build", "dev"] {
        seen.add(&run_alone(&[noun, "--help"]));
    }
    seen.check();
}

#[test]
fn a_new_crate_overwrites_nothing() {
    let mut seen = Transcript::new("new_a_new_crate");
    let folder = TempDir::new().unwrap();
    let dir = folder.path().join("word-count").display().to_string();
    let new = |more: &[&str]| {
        let arguments = ["new", "word-count", "--dir", &dir];
        run(folder.path(), &[&arguments[..], more].concat())
    };
    seen.add(&new(&[]));
    let manifest = std::fs::read_to_string(folder.path().join("word-count/Cargo.toml")).unwrap();
    assert!(manifest.contains("name = \"word-count\""), "{manifest}");
    assert!(manifest.contains("path = \"guest-sdk\""), "{manifest}");
    let code = std::fs::read_to_string(folder.path().join("word-count/src/lib.rs")).unwrap();
    assert!(code.contains("export_handlers!(word_count);"), "{code}");
    seen.add(&new(&[]));
    std::fs::remove_dir_all(&dir).unwrap();
    seen.add(&new(&["-o", "json"]));
    seen.check();
}

#[test]
fn a_new_project_has_the_files_of_its_language() {
    let mut seen = Transcript::new("new_languages");
    for lang in ["js", "ts", "python"] {
        let folder = TempDir::new().unwrap();
        let dir = folder.path().join("word-count").display().to_string();
        let arguments = ["new", "word-count", "--lang", lang, "--dir", &dir];
        seen.add(&run(folder.path(), &arguments));
    }
    seen.check();
}

#[test]
fn wrong_arguments() {
    let mut seen = Transcript::new("new_wrong_arguments");
    let folder = TempDir::new().unwrap();
    let dir = folder.path().display().to_string();
    for arguments in [
        &["new", "Word"][..],
        &["new", "fn"],
        &["new", "a", "--lang", "cobol"],
        &["build", &dir],
        &["dev", &dir],
    ] {
        seen.add(&run(folder.path(), arguments));
    }
    for (file, text) in [("pyproject.toml", "[project]"), ("package.json", "{}")] {
        std::fs::write(folder.path().join(file), text).unwrap();
        seen.add(&run(folder.path(), &["build", &dir]));
    }
    seen.check();
}
