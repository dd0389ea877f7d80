//! The SDKs, which are part of this program: `host new` writes one into each new project, so that it builds wherever it is
//! copied to (decisions 0027 and 0041).

use toml::{Table, Value};

macro_rules! files {
    ($folder:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../../", $folder, "/", $path)))),+]
    };
}

type Files = &'static [(&'static str, &'static str)];

/// The manifests of the SDK in Rust, as paths and texts. They refer to the workspace of the host.
const MANIFESTS: Files = files!["guest-sdk": "Cargo.toml", "macros/Cargo.toml"];

/// Its other files.
const RUST: Files = files!["guest-sdk":
    "README.md",
    "macros/src/lib.rs",
    "src/artifacts.rs",
    "src/ctx.rs",
    "src/database.rs",
    "src/error.rs",
    "src/export.rs",
    "src/http.rs",
    "src/lib.rs",
    "src/limits.rs",
    "src/log.rs",
    "src/mock.rs",
    "src/mock/attempt.rs",
    "src/mock_files.rs",
    "src/redirects.rs",
    "src/replay.rs",
    "src/request.rs",
    "src/services.rs",
    "src/sql.rs",
    "src/state.rs",
    "src/steps.rs",
    "src/store.rs",
    "wit/host-jobs-1.2.0/jobs.wit",
];

const JAVASCRIPT: Files = files!["sdk/js":
    "README.md",
    "package.json",
    "src/component.js",
    "src/ctx.js",
    "src/errors.js",
    "src/handlers.js",
    "src/http.js",
    "src/index.d.ts",
    "src/index.js",
    "src/interface.d.ts",
    "src/limits.js",
    "src/mock.js",
    "src/node/crypto.js",
    "src/node/process.js",
    "src/quickjs.js",
    "src/quickjs/console.js",
    "src/quickjs/globals.js",
    "src/quickjs/promise.js",
    "src/quickjs/queue.js",
    "src/quickjs/random.js",
    "src/quickjs/text.js",
    "src/redirects.js",
    "src/replay.js",
    "src/schema.js",
    "src/source_map.js",
    "src/starlingmonkey.js",
    "src/values.js",
    "src/web/clone.js",
    "src/web/crypto.js",
    "src/web/events.js",
    "src/web/fetch.js",
    "src/web/intl.js",
    "src/web/intl/dates.js",
    "src/web/intl/locale.js",
    "src/web/intl/numbers.js",
    "src/web/intl/zones.js",
    "src/web/network.js",
    "src/web/streams.js",
    "src/web/url.js",
    "src/web/zones.js",
];

const PYTHON: Files = files!["sdk/python/host_jobs":
    "__init__.py",
    "artifacts.py",
    "component.py",
    "ctx.py",
    "errors.py",
    "given.py",
    "handlers.py",
    "http.py",
    "interface.py",
    "limits.py",
    "loop.py",
    "mock.py",
    "network.py",
    "py.typed",
    "redirects.py",
    "replay.py",
    "schemas.py",
    "sockets.py",
    "sql.py",
    "tls.py",
    "values.py",
];

const LICENSE: (&str, &str) = ("LICENSE", include_str!("../../../../../LICENSE"));

/// The manifest of the workspace of the host.
const WORKSPACE: &str = include_str!("../../../../../Cargo.toml");

/// Returns the files of the SDK in Rust, as paths and texts.
pub(super) fn rust() -> Vec<(String, String)> {
    let manifests = MANIFESTS
        .iter()
        .map(|(path, text)| ((*path).to_owned(), standalone(text)));
    manifests.chain(as_they_are(RUST)).collect()
}

/// Returns the files of the SDK in JavaScript, as paths and texts.
pub(super) fn javascript() -> Vec<(String, String)> {
    as_they_are(JAVASCRIPT).collect()
}

/// Returns the files of the SDK in Python, as paths and texts.
pub(super) fn python() -> Vec<(String, String)> {
    as_they_are(PYTHON).collect()
}

fn as_they_are(files: Files) -> impl Iterator<Item = (String, String)> {
    let files = files.iter().chain([&LICENSE]);
    files.map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
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
    use std::path::Path;

    use super::*;

    /// Adds what is below a folder, as paths from `top`.
    fn below(folder: &Path, top: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, top, found);
            } else {
                let path = path.strip_prefix(top).unwrap();
                found.insert(path.display().to_string());
            }
        }
    }

    #[test]
    fn no_file_of_an_sdk_is_forgotten() {
        for (folder, files) in [
            ("guest-sdk", &[MANIFESTS, RUST].concat()[..]),
            ("sdk/js", JAVASCRIPT),
            ("sdk/python/host_jobs", PYTHON),
        ] {
            let top = Path::new(env!("CARGO_MANIFEST_DIR"))
                .join("../..")
                .join(folder);
            let mut found = BTreeSet::new();
            below(&top, &top, &mut found);
            // Tests stay here, and what running them writes. Each SDK gets the license.
            let stays = |path: &str| path.starts_with("test/") || path.contains("__pycache__");
            found.retain(|path| !stays(path) && path != LICENSE.0);
            let listed: BTreeSet<_> = files.iter().map(|(path, _)| (*path).to_owned()).collect();
            assert_eq!(listed, found, "{folder}");
        }
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
        let (_, text) = rust().swap_remove(0);
        let sdk: Table = text.parse().unwrap();
        let json = sdk["dependencies"]["serde_json"].as_table().unwrap();
        let features = ["raw_value", "float_roundtrip"].map(|it| Value::String(it.to_owned()));
        assert_eq!(json["features"], Value::Array(features.into()));
        let macros = &sdk["dependencies"]["host-guest-sdk-macros"];
        assert_eq!(macros["path"].as_str(), Some("macros"));
    }
}
