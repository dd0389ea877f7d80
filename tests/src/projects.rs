//! Projects of handlers in other languages, made by `host new` and built by `host build` as a user does.

pub mod languages;

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::guests::built;
use crate::server::host;

/// What decides what a project is built into, besides its own files.
const BUILDERS: [&str; 2] = [
    "../host/toolchain/src/pinned",
    "../host/cli/src/commands/build/project",
];

/// Folders that building writes.
const MADE: [&str; 4] = ["target", "node_modules", "__pycache__", "made-of"];

/// Returns the component of a project in a language, which has `files` besides those of `host new`. Its tests must
/// pass. It is built again only if something has changed.
///
/// # Panics
///
/// If it cannot be built.
pub fn component<T: AsRef<str>>(name: &str, lang: &str, files: &[(T, T)]) -> PathBuf {
    let folder = folder();
    let (project, fresh) = (folder.join(name), folder.join(format!("{name}.new")));
    let _ = fs::remove_dir_all(&fresh);
    run(Command::new(host())
        .args(["new", name, "--lang", lang, "--dir"])
        .arg(&fresh));
    for (path, text) in files {
        let path = fresh.join(path.as_ref());
        let folder = path.parent().expect("it is in the project");
        fs::create_dir_all(folder).expect("the project is writable");
        fs::write(path, text.as_ref()).expect("the project is writable");
    }
    let mut inputs = texts(&fresh);
    for folder in BUILDERS {
        inputs += &texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder));
    }
    let (made_of, component) = (project.join("made-of"), project.join("target"));
    let component = component.join(format!("{name}.wasm"));
    if fs::read_to_string(&made_of).is_ok_and(|kept| kept == inputs) {
        return component;
    }
    let _ = fs::remove_dir_all(&project);
    fs::rename(&fresh, &project).expect("the project can be moved");
    run(&mut build(&project));
    fs::write(made_of, inputs).expect("the project is writable");
    component
}

/// Returns the folder of all projects.
pub fn folder() -> PathBuf {
    built("peers").join("projects")
}

/// Returns the text of a `package.json` for `StarlingMonkey`, in a language.
///
/// # Panics
///
/// If the one of `host new` is not there.
pub fn starlingmonkey(name: &str, lang: &str) -> String {
    let template = Path::new(env!("CARGO_MANIFEST_DIR")).join("../host/cli/src/commands/new");
    let text = fs::read_to_string(template.join(lang).join("package.json.in"))
        .expect("the template is there")
        .replace("{{name}}", name);
    let mut package: Value = serde_json::from_str(&text).expect("the template is JSON");
    package["host-jobs"] = json!({"engine": "starlingmonkey"});
    package.to_string()
}

/// Makes the command that tests and builds a project, with builders that tests share.
pub fn build(project: &Path) -> Command {
    let mut command = Command::new(host());
    command.args(["build", "--test"]).arg(project);
    command.env("XDG_CACHE_HOME", cache());
    command
}

/// Returns the cache folder with the builders.
pub fn cache() -> PathBuf {
    built("peers").join("cache")
}

fn run(command: &mut Command) {
    let output = command.output().expect("host starts");
    let shown = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {shown}");
}

/// Returns the texts of all files below a folder, by their paths in it, in order. Leaves out what building writes.
///
/// # Panics
///
/// If one is not a text.
pub fn files(folder: &Path) -> Vec<(String, String)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder)
        .expect("the folder is there")
        .map(|entry| entry.expect("the folder is readable").path())
        .collect();
    paths.sort();
    let mut all = Vec::new();
    for path in paths {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if MADE.contains(&&*name) {
            continue;
        }
        if path.is_dir() {
            let below = files(&path).into_iter();
            all.extend(below.map(|(path, text)| (format!("{name}/{path}"), text)));
        } else {
            let text = fs::read_to_string(&path).expect("the file is text");
            all.push((name.into_owned(), text));
        }
    }
    all
}

/// Returns all texts in a folder as one.
fn texts(folder: &Path) -> String {
    let mut all = String::new();
    for (name, text) in files(folder) {
        write!(all, "== {name}\n{text}").expect("texts are writable");
    }
    all
}
