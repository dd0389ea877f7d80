//! The guest SDK, which is part of this program: `host new` writes it into each new crate, so that the crate builds
//! wherever it is copied to (decision 0027).

use toml::{Table, Value};

/// The folder of the SDK in a new crate.
pub(super) const FOLDER: &str = "guest-sdk";

macro_rules! files {
    ($($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../../guest-sdk/", $path)))),+]
    };
}

/// Its manifests, as paths and texts. They refer to the workspace of the host.
const MANIFESTS: &[(&str, &str)] = files!["Cargo.toml", "macros/Cargo.toml"];

/// Its other files.
const FILES: &[(&str, &str)] = files![
    "README.md",
    "macros/src/lib.rs",
    "src/ctx.rs",
    "src/error.rs",
    "src/export.rs",
    "src/http.rs",
    "src/lib.rs",
    "src/mock.rs",
    "src/services.rs",
    "src/state.rs",
    "src/store.rs",
    "wit/host-jobs-1.1.0/jobs.wit",
];

const LICENSE: &str = include_str!("../../../../../LICENSE");

/// The manifest of the workspace of the host.
const WORKSPACE: &str = include_str!("../../../../../Cargo.toml");

/// Returns all its files, as paths in a new crate and texts.
pub(super) fn files() -> impl Iterator<Item = (String, String)> {
    let manifests = MANIFESTS.iter();
    let manifests = manifests.map(|(path, text)| (*path, standalone(text)));
    let others = FILES.iter().chain([&("LICENSE", LICENSE)]);
    let others = others.map(|(path, text)| (*path, (*text).to_owned()));
    let all = manifests.chain(others);
    all.map(|(path, text)| (format!("{FOLDER}/{path}"), text))
}

/// Writes into a manifest what it takes from the workspace, as `cargo package` does.
fn standalone(manifest: &str) -> String {
    // A test parses both.
    let parsed = |text: &str| text.parse::<Table>().unwrap_or_default();
    let (mut manifest, workspace) = (parsed(manifest), parsed(WORKSPACE));
    let shared = |key: &str| {
        let shared = workspace.get("workspace").and_then(|it| it.get(key));
        shared
            .and_then(Value::as_table)
            .cloned()
            .unwrap_or_default()
    };
    let (package, dependencies) = (shared("package"), shared("dependencies"));
    manifest.remove("lints");
    for (key, table) in &mut manifest {
        let Value::Table(table) = table else { continue };
        match key.as_str() {
            "package" => inherit(table, &package),
            "dependencies" => inherit(table, &dependencies),
            "target" => {
                let targets = table
                    .iter_mut()
                    .filter_map(|(_, it)| it.get_mut("dependencies"));
                for table in targets.filter_map(Value::as_table_mut) {
                    inherit(table, &dependencies);
                }
            }
            _ => {}
        }
    }
    manifest.to_string()
}

/// Replaces `workspace = true` of each key with what the workspace shares. Own features are added to it.
fn inherit(table: &mut Table, shared: &Table) {
    for (key, value) in table {
        let Value::Table(own) = value else { continue };
        if own.remove("workspace").is_none() {
            continue;
        }
        let own = std::mem::take(own);
        *value = match shared.get(key) {
            Some(Value::Table(shared)) => Value::Table(merged(shared.clone(), own)),
            Some(version) if !own.is_empty() => {
                let shared = Table::from_iter([("version".to_owned(), version.clone())]);
                Value::Table(merged(shared, own))
            }
            Some(shared) => shared.clone(),
            None => Value::Table(own),
        };
    }
}

fn merged(mut shared: Table, own: Table) -> Table {
    for (key, value) in own {
        match (shared.get_mut(&key), value) {
            (Some(Value::Array(shared)), Value::Array(own)) => shared.extend(own),
            (_, value) => {
                shared.insert(key, value);
            }
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};

    use super::*;

    fn sdk() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../guest-sdk")
    }

    fn below(folder: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, found);
            } else {
                let path = path.strip_prefix(sdk()).unwrap();
                found.insert(path.display().to_string());
            }
        }
    }

    #[test]
    fn no_file_of_the_sdk_is_forgotten() {
        let mut found = BTreeSet::new();
        below(&sdk(), &mut found);
        let listed = MANIFESTS.iter().chain(FILES);
        let listed: BTreeSet<_> = listed.map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(listed, found);
    }

    #[test]
    fn its_manifests_need_no_workspace() {
        WORKSPACE.parse::<Table>().unwrap();
        for (path, text) in MANIFESTS {
            text.parse::<Table>().unwrap();
            let written = standalone(text);
            assert!(!written.contains("workspace"), "{path}: {written}");
            assert!(written.contains("version = \"0.1.0\""), "{path}: {written}");
        }
        let (_, text) = files().next().unwrap();
        let sdk: Table = text.parse().unwrap();
        let json = sdk["dependencies"]["serde_json"].as_table().unwrap();
        let features = ["raw_value", "float_roundtrip"].map(|it| Value::String(it.to_owned()));
        assert_eq!(json["features"], Value::Array(features.into()));
        let macros = &sdk["dependencies"]["host-guest-sdk-macros"];
        assert_eq!(macros["path"].as_str(), Some("macros"));
    }
}
