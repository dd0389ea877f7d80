//! Components in other languages for the suite of real peers, built with componentize-py and componentize-js
//! from the registries. Each is rebuilt only if its sources have changed.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cargo::{cargo, output, root, run};
use crate::setup;

/// The requirements with componentize-py, and the folder to install them in.
pub(crate) const PYTHON: &str = "componentize-py-0.25.1";

/// The folder to install componentize-js in, according to the example's lock file.
const JAVASCRIPT: &str = "componentize-js-0.23.0";

/// The examples, the tests' additions to them, and the interface.
const PYTHON_EXAMPLE: &str = "examples/python";
const JAVASCRIPT_EXAMPLE: &str = "examples/javascript";
const APPS: &str = "tests/peers/languages";
const WIT: &str = "wit/host-jobs-1.1.0";

/// The crate that has the text of `wasi:http`, and the world of the component in Python.
const WASI_HTTP: &str = "wasmtime-wasi-http";
const WORLD_FOLDER: &str = "tests/peers/languages/wit";
const WORLD: &str = "tests:app/app";

/// Both interfaces have `types`.
const NAMES: [&str; 2] = [
    "host:jobs/types@1.1.0=types",
    "wasi:http/types@0.2.12=http_types",
];

/// The command that installs componentize-js.
const PACKAGE: [&str; 3] = ["package.json", "package-lock.json", "build.mjs"];

/// Builds both components in `languages` below `folder`, where the builders are installed.
pub(crate) fn build(folder: &Path) -> Result<()> {
    let built = folder.join("languages");
    std::fs::create_dir_all(&built).with_context(|| format!("cannot make {}", built.display()))?;
    let component = built.join("python.wasm");
    make(&component, &[PYTHON_EXAMPLE], || {
        let mut command = Command::new(folder.join(PYTHON).join("bin/componentize-py"));
        // A folder may name only packages of those before it.
        command
            .args(["--quiet", "--world", WORLD, "--wit-path", WIT])
            .arg("--wit-path")
            .arg(wasi_http()?)
            .args(["--wit-path", WORLD_FOLDER]);
        for name in NAMES {
            command.args(["--import-interface-name", name]);
        }
        command
            .args(["componentize", "app", "--python-path", PYTHON_EXAMPLE])
            .args(["--python-path", APPS, "--output"])
            .arg(&component);
        run(command.current_dir(root()))
    })?;
    let component = built.join("javascript.wasm");
    make(&component, &[JAVASCRIPT_EXAMPLE], || {
        let installed = javascript(&folder.join(JAVASCRIPT))?;
        let mut command = Command::new("node");
        command
            .arg(installed.join("build.mjs"))
            .args([&format!("{APPS}/app.js"), WIT])
            .arg(&component);
        run(command.current_dir(root()))
    })
}

/// Returns the folder with the text of `wasi:http`.
fn wasi_http() -> Result<PathBuf> {
    let metadata = output(&mut cargo(&["metadata", "--format-version", "1"]))?;
    let metadata: Value =
        serde_json::from_str(&metadata).context("cargo's metadata is not valid JSON")?;
    let mut packages = metadata["packages"].as_array().into_iter().flatten();
    let package = packages.find(|package| package["name"] == WASI_HTTP);
    let manifest = package.and_then(|package| package["manifest_path"].as_str());
    let manifest = manifest.with_context(|| format!("{WASI_HTTP} is no dependency"))?;
    Ok(Path::new(manifest).with_file_name("wit"))
}

/// Calls `maker` unless `component` was built from the same texts.
fn make(component: &Path, sources: &[&str], maker: impl FnOnce() -> Result<()>) -> Result<()> {
    let made_of = component.with_extension("inputs");
    let inputs = texts(&[sources, &[APPS, WORLD_FOLDER, WIT]].concat())?;
    let same = std::fs::read_to_string(&made_of).is_ok_and(|kept| kept == inputs);
    if same && component.exists() {
        return Ok(());
    }
    eprintln!("making {}", component.display());
    maker()?;
    std::fs::write(&made_of, inputs).with_context(|| format!("cannot write {}", made_of.display()))
}

/// Returns all texts of some folders of the repository.
fn texts(folders: &[&str]) -> Result<String> {
    let mut all = String::new();
    for folder in folders {
        let entries = std::fs::read_dir(root().join(folder));
        let entries = entries.with_context(|| format!("cannot read {folder}"))?;
        let mut paths: Vec<PathBuf> = entries
            .map(|entry| entry.map(|entry| entry.path()))
            .collect::<Result<_, _>>()?;
        paths.retain(|path| path.is_file());
        paths.sort();
        for path in paths {
            let text = std::fs::read_to_string(&path);
            let text = text.with_context(|| format!("cannot read {}", path.display()))?;
            let name = path.display().to_string();
            all.extend(["== ", &name, "\n", &text]);
        }
    }
    Ok(all)
}

/// Installs componentize-js unless it is installed.
fn javascript(folder: &Path) -> Result<PathBuf> {
    if !setup::is_there("node") || !setup::is_there("npm") {
        setup::install(&["nodejs", "npm"])?;
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
    for file in PACKAGE {
        let from = root().join(JAVASCRIPT_EXAMPLE).join(file);
        std::fs::copy(&from, folder.join(file))
            .with_context(|| format!("cannot copy {}", from.display()))?;
    }
    let maker = folder.join("node_modules/@bytecodealliance/componentize-js");
    if !maker.exists() {
        eprintln!("installing {JAVASCRIPT} into {}", folder.display());
        run(Command::new("npm")
            .args([
                "install",
                "--no-save",
                "--ignore-scripts",
                "--no-audit",
                "--no-fund",
            ])
            .args(["--loglevel", "error"])
            .current_dir(folder))
        .context("tests need componentize-js from npm; npm_config_registry may name a mirror")?;
    }
    let read = |path: PathBuf| -> Result<Value> {
        let text = std::fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not valid JSON", path.display()))
    };
    let installed = read(folder.join("node_modules/.package-lock.json"))?;
    let locked = read(root().join(JAVASCRIPT_EXAMPLE).join("package-lock.json"))?;
    match unlocked(&installed, &locked) {
        None => Ok(folder.to_owned()),
        Some(package) => bail!(
            "{package} in {} does not match the lock file; remove that folder",
            folder.display()
        ),
    }
}

/// Returns an installed package whose hash is not in the lock file. `npm ci` would check this, but refuses a
/// lock file without packages for systems that a mirror lacks.
fn unlocked<'a>(installed: &'a Value, locked: &Value) -> Option<&'a str> {
    let packages = installed["packages"].as_object()?;
    let mut packages = packages.iter();
    let unlocked = packages.find(|(path, package)| {
        let hash = package["integrity"].as_str();
        hash.is_none() || hash != locked["packages"][path.as_str()]["integrity"].as_str()
    });
    unlocked.map(|(path, _)| path.as_str())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_packages_of_the_lock_file_are_installed() {
        let lock =
            |hash: &str| json!({"packages": {"": {}, "node_modules/a": {"integrity": hash}}});
        let installed = |package: Value| json!({"packages": {"node_modules/a": package}});
        let one = installed(json!({"integrity": "sha512-one"}));
        assert_eq!(unlocked(&one, &lock("sha512-one")), None);
        let other = Some("node_modules/a");
        assert_eq!(unlocked(&one, &lock("sha512-two")), other);
        assert_eq!(unlocked(&one, &json!({"packages": {}})), other);
        assert_eq!(unlocked(&installed(json!({})), &lock("sha512-one")), other);
    }
}
