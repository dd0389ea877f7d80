//! The crate of a component: what cargo says of it, its tests, its build, and where the results go.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use host_console::error::{CliError, Exit};
use host_console::plain;
use host_server::config;
use serde::Deserialize;

/// The folder below the target folder where components are built, apart from the crate's tests.
const BUILD_DIR: &str = "component";

/// The kind of a crate that becomes a component.
const COMPONENT_KIND: &str = "cdylib";

/// The crate of a component.
#[derive(Debug)]
pub(crate) struct Project {
    /// The crate's name.
    pub(crate) name: String,
    /// The crate's folder.
    pub(crate) dir: PathBuf,
    /// The folder that cargo builds into.
    pub(crate) target: PathBuf,
    /// The name of the library's file, without its ending.
    library: String,
}

/// A component that was built.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) component: PathBuf,
    pub(crate) manifest: Option<PathBuf>,
    pub(crate) bytes: u64,
}

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    target_directory: PathBuf,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    crate_types: Vec<String>,
}

impl Package {
    /// Returns the name of its library, if that is a component.
    fn library(&self) -> Option<&str> {
        let is_component =
            |target: &&Target| target.crate_types.iter().any(|it| it == COMPONENT_KIND);
        let target = self.targets.iter().find(is_component)?;
        Some(&target.name)
    }
}

impl Project {
    /// Finds the crate in `dir`, or the only component of the workspace there.
    pub(crate) fn find(dir: &Path) -> Result<Self, CliError> {
        let shown = dir.display().to_string();
        let shown = plain::line(&shown);
        let doing = format!("read the crate in {shown}");
        let manifest = std::path::absolute(dir.join("Cargo.toml"))
            .and_then(std::fs::canonicalize)
            .map_err(|error| {
                CliError::new(Exit::Usage, &doing, format!("Cargo.toml: {error}"))
                    .next("pass the folder of a crate; `host new NAME` creates one")
            })?;
        let metadata = metadata(&manifest, &doing)?;
        let components = || {
            let packages = metadata.packages.iter();
            packages.filter_map(|package| Some((package, package.library()?)))
        };
        let own = components().find(|(package, _)| package.manifest_path == manifest);
        let mut all = components();
        let only = all.next().filter(|_| all.next().is_none());
        let (package, library) = own.or(only).ok_or_else(|| {
            let names: Vec<_> = components().map(|(package, _)| &*package.name).collect();
            let (cause, next) = if names.is_empty() {
                (
                    "it has no component".to_owned(),
                    "write crate-type = [\"cdylib\", \"rlib\"] below [lib] in Cargo.toml",
                )
            } else {
                (
                    format!("it has several components: {}", names.join(", ")),
                    "give the folder of one of them",
                )
            };
            CliError::new(Exit::Usage, &doing, cause).next(next)
        })?;
        let dir = package.manifest_path.parent().unwrap_or(dir);
        Ok(Self {
            name: package.name.clone(),
            dir: dir.to_owned(),
            target: metadata.target_directory.clone(),
            library: library.replace('-', "_"),
        })
    }

    /// Runs its tests. What they print goes to standard error.
    pub(crate) fn test(&self) -> Result<(), CliError> {
        let mut command = Command::new("cargo");
        command.args(["test", "--package", &self.name]);
        self.run(&mut command, "run its tests")
    }

    /// Builds the component and puts it and its manifest into the target folder.
    pub(crate) fn build(&self) -> Result<Built, CliError> {
        let doing = self.doing("build it");
        let toolchain = host_toolchain::find().map_err(|missing| {
            CliError::new(Exit::Failed, &doing, &missing).next(missing.advice())
        })?;
        let environment = config::environment();
        let path = environment.get("PATH").map_or("", String::as_str);
        let build_dir = self.target.join(BUILD_DIR);
        let mut command = toolchain.build(path.as_ref(), &build_dir);
        command.args(["--release", "--package", &self.name]);
        // Stack traces of traps need the names of functions; the rest of the debug information is large.
        command.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
        self.run(&mut command, "build it")?;
        let built = build_dir.join(host_toolchain::TARGET).join("release");
        let component = self.target.join(format!("{}.wasm", self.name));
        let unwritten = |error| CliError::new(Exit::Failed, &doing, error);
        let bytes = std::fs::copy(built.join(format!("{}.wasm", self.library)), &component)
            .map_err(unwritten)?;
        let manifest = self.target.join(format!("{}.toml", self.name));
        let written = self.dir.join(format!("{}.toml", self.name));
        let has_manifest = written.exists();
        if has_manifest {
            std::fs::copy(&written, &manifest).map_err(unwritten)?;
        } else if manifest.exists() {
            // It belongs to an earlier build.
            std::fs::remove_file(&manifest).map_err(unwritten)?;
        }
        Ok(Built {
            component,
            manifest: has_manifest.then_some(manifest),
            bytes,
        })
    }

    fn doing(&self, what: &str) -> String {
        let dir = self.dir.display().to_string();
        format!("{what}: the crate {} in {}", self.name, plain::line(&dir))
    }

    fn run(&self, command: &mut Command, what: &str) -> Result<(), CliError> {
        let status = command
            .current_dir(&self.dir)
            .stdin(Stdio::null())
            .stdout(io::stderr())
            .status();
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(CliError::new(
                Exit::Failed,
                self.doing(what),
                format!("cargo failed ({status})"),
            )
            .next("see the output above")),
            Err(error) => Err(no_cargo(&self.doing(what), &error)),
        }
    }
}

fn no_cargo(doing: &str, error: &io::Error) -> CliError {
    CliError::new(Exit::Failed, doing, format!("cannot start cargo: {error}"))
        .next(host_toolchain::Missing::Rust.advice())
}

fn metadata(manifest: &Path, doing: &str) -> Result<Metadata, CliError> {
    let output = Command::new("cargo")
        .args([
            "metadata",
            "--no-deps",
            "--format-version",
            "1",
            "--manifest-path",
        ])
        .arg(manifest)
        .stderr(Stdio::inherit())
        .output()
        .map_err(|error| no_cargo(doing, &error))?;
    if !output.status.success() {
        let cause = format!("cargo failed ({})", output.status);
        return Err(CliError::new(Exit::Failed, doing, cause).next("see the output above"));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| {
        CliError::new(Exit::Failed, doing, format!("cargo's answer: {error}"))
            .next("use cargo from Rust 1.95 or later")
    })
}
