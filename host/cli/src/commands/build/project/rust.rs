//! The crate of a component: what cargo says of it, its tests and its build.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use host_console::error::{CliError, Exit};
use host_server::config;
use serde::Deserialize;

use super::{Project, Source, cannot_start};

/// The folder below the target folder where components are built, apart from the crate's tests.
const BUILD_DIR: &str = "component";

/// The kind of a crate that becomes a component.
const COMPONENT_KIND: &str = "cdylib";

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

/// Reads the crate in `dir`, or the only component of the workspace there.
pub(super) fn find(dir: &Path, doing: &str) -> Result<Project, CliError> {
    let manifest = dir.join("Cargo.toml");
    let metadata = metadata(&manifest, doing)?;
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
        CliError::new(Exit::Usage, doing, cause).next(next)
    })?;
    let dir = package.manifest_path.parent().unwrap_or(dir);
    Ok(Project {
        name: package.name.clone(),
        dir: dir.to_owned(),
        target: metadata.target_directory.clone(),
        source: Source::Rust {
            library: library.replace('-', "_"),
        },
    })
}

/// Makes the command that runs its tests.
pub(super) fn test(project: &Project) -> Command {
    let mut command = Command::new("cargo");
    command.args(["test", "--package", &project.name]);
    command
}

/// Builds the component and returns its file.
pub(super) fn build(project: &Project, library: &str) -> Result<PathBuf, CliError> {
    let toolchain = host_toolchain::find().map_err(|missing| {
        let doing = project.doing("build it");
        CliError::new(Exit::Failed, doing, &missing).next(missing.advice())
    })?;
    let environment = config::environment();
    let path = environment.get("PATH").map_or("", String::as_str);
    let build_dir = project.target.join(BUILD_DIR);
    let mut command = toolchain.build(path.as_ref(), &build_dir);
    command.args(["--release", "--package", &project.name]);
    // Stack traces of traps need the names of functions; the rest of the debug information is large.
    command.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    project.run(&mut command, "build it")?;
    let built = build_dir.join(host_toolchain::TARGET).join("release");
    Ok(built.join(format!("{library}.wasm")))
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
        .map_err(|error| cannot_start(doing, "cargo", &error))?;
    if !output.status.success() {
        let cause = format!("cargo failed ({})", output.status);
        return Err(CliError::new(Exit::Failed, doing, cause).next("see the output above"));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| {
        CliError::new(Exit::Failed, doing, format!("cargo's answer: {error}"))
            .next("use cargo from Rust 1.95 or later")
    })
}
