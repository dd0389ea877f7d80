//! A project in Python: its module, its packages, its tests and its build with componentize-py.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use host_console::error::{CliError, Exit};
use host_toolchain::pinned::{COMPONENTIZE_PY, packages_of_pip};
use serde::Deserialize;

use super::{Project, Source, TARGET_DIR, tools};

/// The packages that the project locks, with hashes.
const REQUIREMENTS: &str = "requirements.txt";

/// A folder that the builder takes for an environment, so that it sees no packages of this machine.
const ENVIRONMENT: &str = "python";

/// The module with the exports.
const EXPORTS: &str = "host_component";

#[derive(Deserialize)]
struct PyProject {
    project: ProjectTable,
    #[serde(default)]
    tool: Tools,
}

#[derive(Deserialize)]
struct ProjectTable {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Tools {
    #[serde(default)]
    host_jobs: Settings,
}

#[derive(Debug, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct Settings {
    /// The module with the handlers.
    module: String,
    /// Folders with more modules, such as an SDK that several projects share.
    paths: Vec<PathBuf>,
    /// The worlds of packages that have interfaces of their own, by the module of each.
    worlds: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            module: "handlers".to_owned(),
            paths: Vec::new(),
            worlds: BTreeMap::new(),
        }
    }
}

/// Reads `pyproject.toml` in `dir`.
pub(super) fn find(dir: &Path, doing: &str) -> Result<Project, CliError> {
    let wrong = |error: &dyn std::fmt::Display| {
        let cause = format!("pyproject.toml: {error}");
        CliError::new(Exit::Usage, doing, cause)
            .next("compare it with that of `host new NAME --lang python`")
    };
    let text = fs::read_to_string(dir.join("pyproject.toml")).map_err(|error| wrong(&error))?;
    let read: PyProject = toml::from_str(&text).map_err(|error| wrong(&error))?;
    Ok(Project {
        name: read.project.name,
        dir: dir.to_owned(),
        target: dir.join(TARGET_DIR),
        source: Source::Python(read.tool.host_jobs),
    })
}

/// Makes the command that runs its tests.
pub(super) fn test(project: &Project, settings: &Settings) -> Result<Command, CliError> {
    let packages = [packages(project)?];
    let own = settings.paths.iter().map(|path| project.dir.join(path));
    let paths = std::env::join_paths(own.chain(packages))
        .map_err(|error| CliError::new(Exit::Failed, project.doing("run its tests"), error))?;
    let mut command = Command::new("python3");
    command
        .args(["-B", "-m", "unittest", "discover", "--pattern", "test*.py"])
        .env("PYTHONPATH", paths);
    Ok(command)
}

/// Builds the component and returns its file.
pub(super) fn build(project: &Project, settings: &Settings) -> Result<PathBuf, CliError> {
    let tool = tools::folder(&COMPONENTIZE_PY)?;
    packages(project)?;
    let environment = project.folder(ENVIRONMENT)?;
    let exports = environment.join(format!("{EXPORTS}.py"));
    let module = &settings.module;
    let text = format!("import {module}\nfrom host_jobs.component import Handler\n");
    fs::write(&exports, text)
        .map_err(|error| CliError::new(Exit::Failed, project.doing("build it"), error))?;
    let component = environment.join("component.wasm");
    let mut command = COMPONENTIZE_PY.program(&tool);
    command
        .args(["componentize", EXPORTS])
        .args(["--python-path", ".", "--python-path"])
        .args([&*environment, Path::new("--output"), &component])
        .env("VIRTUAL_ENV", &environment);
    for path in &settings.paths {
        command.arg("--python-path").arg(path);
    }
    for (module, world) in &settings.worlds {
        command.args(["--module-worlds", &format!("{module}={world}")]);
    }
    project.run(&mut command, "build it")?;
    Ok(component)
}

/// Returns the folder with the packages of the project, which are those that it locks.
fn packages(project: &Project) -> Result<PathBuf, CliError> {
    let environment = project.folder(ENVIRONMENT)?;
    let folder = project.folder(&format!("{ENVIRONMENT}/lib/site-packages"))?;
    let (locked, installed) = (
        project.dir.join(REQUIREMENTS),
        environment.join(REQUIREMENTS),
    );
    let locked = fs::read_to_string(locked).unwrap_or_default();
    if fs::read_to_string(&installed).unwrap_or_default() == locked {
        return Ok(folder);
    }
    let doing = project.doing("install its packages");
    let failed = |error| CliError::new(Exit::Failed, &doing, error);
    fs::remove_dir_all(&folder).map_err(failed)?;
    let mut command = packages_of_pip(&folder);
    // Only packages without machine code run in a component.
    command.args(["--only-binary", ":all:", "--platform", "any"]);
    project.run(&mut command, "install its packages")?;
    fs::write(&installed, locked).map_err(failed)?;
    Ok(folder)
}
