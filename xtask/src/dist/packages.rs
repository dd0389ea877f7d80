//! Packages for the registries of languages: the program for `PyPI` and npm, the clients and the SDKs.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::files::{copy, copy_all, empty, write};
use super::{PACKAGING, Release};
use crate::cargo::{cargo, output, root, run, target_dir};

/// The packages in pure Python, and in JavaScript.
const PYTHON: [&str; 2] = ["clients/python", "sdk/python"];
const JAVASCRIPT: [&str; 2] = ["clients/typescript", "sdk/js"];

/// The crates that others use.
const CRATES: [&str; 5] = [
    "host-core",
    "host-api",
    "host-jobs-client",
    "host-guest-sdk-macros",
    "host-guest-sdk",
];

impl Release {
    /// Makes the wheels: that of the program, for the C library of this machine or a later one, and those of the client and
    /// the SDK.
    pub(super) fn wheels(&self) -> Result<()> {
        let from = root().join(PACKAGING).join("pypi");
        let program = format!("host={}", self.program.display());
        let alias = format!("host-jobs-cli={}", from.join("host-jobs-cli").display());
        let printed = output(Command::new("getconf").arg("GNU_LIBC_VERSION"))?;
        let libc = printed
            .trim()
            .trim_start_matches("glibc ")
            .replace('.', "_");
        let machine = output(Command::new("uname").arg("-m"))?;
        let tag = format!("py3-none-manylinux_{libc}_{}", machine.trim());
        self.wheel("packaging/pypi", &tag, &[&program, &alias])?;
        PYTHON
            .iter()
            .try_for_each(|project| self.wheel(project, "py3-none-any", &[]))
    }

    fn wheel(&self, project: &str, tag: &str, programs: &[&str]) -> Result<()> {
        run(Command::new("python3")
            .args(["-B", "packaging/wheel.py", project, &self.version, tag])
            .arg(&self.epoch)
            .arg(&self.folder)
            .arg(self.level())
            .args(programs)
            .current_dir(root())
            .stdout(std::io::stderr()))
    }

    /// Makes the packages for npm: that with the command, that with the program of this platform, and those of the client
    /// and the SDK.
    pub(super) fn npm(&self) -> Result<()> {
        let from = root().join(PACKAGING).join("npm");
        let license = root().join("LICENSE");
        let package = self.npm_tree("host-jobs-cli")?;
        write(
            &package.join("package.json"),
            &self.filled(&from.join("package.json"))?,
        )?;
        copy(&from.join("README.md"), &package.join("README.md"), 0o644)?;
        copy(&license, &package.join("LICENSE"), 0o644)?;
        copy(
            &from.join("bin/host.js"),
            &package.join("bin/host.js"),
            0o755,
        )?;
        self.npm_package("host-jobs-cli")?;

        let platform = format!("host-jobs-cli-linux-{}", self.cpu());
        let package = self.npm_tree(&platform)?;
        write(
            &package.join("package.json"),
            &self.filled(&from.join("platform.json"))?,
        )?;
        copy(&license, &package.join("LICENSE"), 0o644)?;
        copy(&self.program, &package.join("bin/host"), 0o755)?;
        self.npm_package(&platform)?;

        for project in JAVASCRIPT {
            let project = root().join(project);
            let text = super::read(&project.join("package.json"))?;
            let json: serde_json::Value =
                serde_json::from_str(&text).context("package.json is not JSON")?;
            let name = json["name"].as_str().context("a package has a name")?;
            let package = self.npm_tree(name)?;
            for file in ["package.json", "README.md", "LICENSE"] {
                copy(&project.join(file), &package.join(file), 0o644)?;
            }
            copy_all(&project.join("src"), &package.join("src"))?;
            self.npm_package(name)?;
        }
        Ok(())
    }

    /// Makes the folder of a package's files.
    fn npm_tree(&self, name: &str) -> Result<PathBuf> {
        empty(&self.trees.join("npm").join(name).join("package"))
    }

    fn npm_package(&self, name: &str) -> Result<()> {
        let tree = self.trees.join("npm").join(name);
        self.archive(&format!("{name}-{}.tgz", self.version), &tree, "package")
    }
}

/// Makes the crates, as cargo publishes them.
pub(super) fn crates() -> Result<Vec<PathBuf>> {
    let mut package = cargo(&["package", "--no-verify", "--allow-dirty", "--quiet"]);
    for name in CRATES {
        package.args(["--package", name]);
    }
    run(&mut package)?;
    let made = target_dir().join("package");
    let file = |name| made.join(format!("{name}-{}.crate", env!("CARGO_PKG_VERSION")));
    Ok(CRATES.map(file).to_vec())
}
