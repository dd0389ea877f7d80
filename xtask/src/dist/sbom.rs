//! The bill of materials: each crate that is linked into the program, as `CycloneDX` has it.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context, Result};
use serde_json::{Map, Value, json};

use super::Release;
use super::files::{read, write};
use crate::cargo::{cargo, output, root};

impl Release {
    /// Writes the bill of materials.
    pub(super) fn sbom(&self) -> Result<()> {
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let arguments = [
            "metadata",
            "--format-version=1",
            "--filter-platform",
            &target,
        ];
        let text = output(&mut cargo(&arguments))?;
        let metadata: Value =
            serde_json::from_str(&text).context("cargo's metadata is not valid JSON")?;
        let lock = read(&root().join("Cargo.lock"))?;
        let sums = checksums(&lock);
        let linked = linked(&metadata).context("cargo's metadata has no graph")?;
        let packages = list(&metadata["packages"]);
        let components: Vec<Value> = packages
            .filter(|package| linked.contains(package["id"].as_str().unwrap_or_default()))
            .map(|package| component(package, &sums))
            .collect();
        let program = json!({
            "type": "application",
            "bom-ref": "host",
            "name": "host",
            "version": self.version,
            "licenses": [{"expression": "Apache-2.0"}],
        });
        let document = json!({
            "bomFormat": "CycloneDX",
            "specVersion": "1.6",
            "version": 1,
            "metadata": {"component": program},
            "components": components,
        });
        let name = format!("host-{}.cdx.json", self.version);
        write(&self.folder.join(name), &format!("{document:#}\n"))
    }
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the ids of the crates that the program links, and of those that run while it is built.
fn linked(metadata: &Value) -> Option<BTreeSet<&str>> {
    let nodes: BTreeMap<&str, &Value> = list(&metadata["resolve"]["nodes"])
        .filter_map(|node| Some((node["id"].as_str()?, node)))
        .collect();
    let program = list(&metadata["packages"]).find(|package| package["name"] == "host")?;
    let mut open = vec![program["id"].as_str()?];
    let mut linked = BTreeSet::new();
    while let Some(id) = open.pop() {
        if !linked.insert(id) {
            continue;
        }
        let is_of_tests = |kind: &Value| kind["kind"] == "dev";
        let dependencies = list(&nodes.get(id)?["deps"]);
        open.extend(
            dependencies
                .filter(|dependency| !list(&dependency["dep_kinds"]).all(is_of_tests))
                .filter_map(|dependency| dependency["pkg"].as_str()),
        );
    }
    linked.remove(program["id"].as_str()?);
    Some(linked)
}

/// Describes a crate.
fn component(package: &Value, sums: &BTreeMap<(&str, &str), &str>) -> Value {
    let name = package["name"].as_str().unwrap_or_default();
    let version = package["version"].as_str().unwrap_or_default();
    let url = format!("pkg:cargo/{name}@{version}");
    let mut component = Map::new();
    let mut set = |key: &str, value: Value| component.insert(key.to_owned(), value);
    set("type", json!("library"));
    set("bom-ref", json!(url));
    set("name", json!(name));
    set("version", json!(version));
    set("purl", json!(url));
    if let Some(license) = package["license"].as_str() {
        // Some crates still write a slash for `OR`.
        let expression = license.replace('/', " OR ");
        set("licenses", json!([{"expression": expression}]));
    }
    if let Some(sum) = sums.get(&(name, version)) {
        set("hashes", json!([{"alg": "SHA-256", "content": sum}]));
    }
    Value::Object(component)
}

/// Reads the checksums of a lock file, by name and version.
fn checksums(lock: &str) -> BTreeMap<(&str, &str), &str> {
    let packages = lock.split("[[package]]").skip(1);
    let sums = packages.filter_map(|package| {
        let value = |key: &str| {
            let mut lines = package.lines();
            lines.find_map(|line| {
                line.strip_prefix(key)?
                    .strip_prefix(" = \"")?
                    .strip_suffix('"')
            })
        };
        Some(((value("name")?, value("version")?), value("checksum")?))
    });
    sums.collect()
}
