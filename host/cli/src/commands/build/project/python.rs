//! A project in Python: its module, its packages, its tests and its build with componentize-py.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use host_console::error::{CliError, Exit};
use host_toolchain::pinned::{COMPONENTIZE_PY, PACKAGES, packages_of_pip};
use serde::Deserialize;
use serde_json::json;

use super::{Component, Project, Purpose, Source, TARGET_DIR, tools};

/// The packages that the project locks, with hashes.
const REQUIREMENTS: &str = "requirements.txt";

/// A folder that the builder takes for an environment, so that it sees no packages of this machine.
const ENVIRONMENT: &str = "python";

/// The module with the exports.
const EXPORTS: &str = "host_component";

/// What finds and runs tests.
const TESTS: &str = "host_bundle.tests";

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
    /// Patterns of files that handlers read, besides modules and the files of packages.
    files: Vec<String>,
    /// The worlds of packages that have interfaces of their own, by the module of each.
    worlds: BTreeMap<String, String>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            module: "handlers".to_owned(),
            paths: Vec::new(),
            files: Vec::new(),
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

/// Makes the command that runs its tests on this machine.
pub(super) fn test(project: &Project, settings: &Settings) -> Result<Command, CliError> {
    let tool = tools::folder(&COMPONENTIZE_PY)?;
    let packages = [packages(project)?, tool.join(PACKAGES)];
    let own = settings.paths.iter().map(|path| project.dir.join(path));
    let paths = std::env::join_paths(own.chain(packages))
        .map_err(|error| CliError::new(Exit::Failed, project.doing("run its tests"), error))?;
    let mut command = Command::new("python3");
    command.args(["-B", "-m", TESTS]).env("PYTHONPATH", paths);
    Ok(command)
}

/// What the builder has found, in its folder for the project.
#[derive(Deserialize)]
struct Report {
    warnings: Vec<String>,
    errors: Vec<String>,
}

const REPORT: &str = "report.json";

/// Builds the component and returns its file.
pub(super) fn build(
    project: &Project,
    settings: &Settings,
    purpose: Purpose,
) -> Result<Component, CliError> {
    let tool = tools::folder(&COMPONENTIZE_PY)?;
    packages(project)?;
    compile_library(project, &tool)?;
    let environment = project.folder(ENVIRONMENT)?;
    let failed = |error: &dyn std::fmt::Display| {
        CliError::new(Exit::Failed, project.doing("build it"), error)
    };
    let exports = environment.join(format!("{EXPORTS}.py"));
    fs::write(&exports, exported(settings, purpose)).map_err(|error| failed(&error))?;
    let component = environment.join(purpose.file());
    let mut command = COMPONENTIZE_PY.program(&tool);
    command
        .args(["componentize", EXPORTS])
        .args(["--python-path", ".", "--python-path"])
        .args([&*environment, Path::new("--python-path")])
        .args([&*tool.join(PACKAGES), Path::new("--output"), &component])
        .env("VIRTUAL_ENV", &environment);
    for path in &settings.paths {
        command.arg("--python-path").arg(path);
    }
    for (module, world) in &settings.worlds {
        command.args(["--module-worlds", &format!("{module}={world}")]);
    }
    let path = environment.join(REPORT);
    // It may be that of an earlier build.
    let _ = fs::remove_file(&path);
    let ran = project.run(&mut command, "build it");
    let Ok(text) = fs::read_to_string(path) else {
        return Err(ran
            .err()
            .unwrap_or_else(|| failed(&"the builder wrote no report")));
    };
    let report: Report = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    if !report.errors.is_empty() {
        return Err(failed(&report.errors.join("; ")));
    }
    ran?;
    Ok(Component {
        component,
        warnings: report.warnings,
    })
}

/// Compiles the standard library for all later builds, unless that is done.
fn compile_library(project: &Project, tool: &Path) -> Result<(), CliError> {
    let packages = tool.join(PACKAGES);
    if packages.join("library.bin").exists() {
        return Ok(());
    }
    let environment = project.folder(ENVIRONMENT)?;
    let component = environment.join("component.wasm");
    let mut command = COMPONENTIZE_PY.program(tool);
    command
        .args(["componentize", "host_bundle.prepare", "--python-path"])
        .args([&*packages, Path::new("--output"), &component])
        .env("VIRTUAL_ENV", &environment);
    project.run(&mut command, "compile the standard library for it")
}

/// Returns the module with the exports. In the builder the folders of modules have numbers, in their order.
fn exported(settings: &Settings, purpose: Purpose) -> String {
    let module = &settings.module;
    let (tests, has_tests) = match purpose {
        Purpose::Jobs => (String::new(), "False"),
        Purpose::Tests => (
            format!("from {TESTS} import register\nregister(\"/0\")\n"),
            "True",
        ),
    };
    let packages = (3..=3 + settings.paths.len())
        .map(|number| format!("/{number}"))
        .collect::<Vec<_>>();
    format!(
        "import host_bundle\nhost_bundle.install(\"/2\")\ntry:\n    import {module}\n\
         except ImportError as error:\n    host_bundle.explain(error, \"/1\")\n    raise\n\
         {tests}from host_jobs.component import Handler\n\
         host_bundle.finish(project=\"/0\", report=\"/1\", zones=\"/2\", packages={}, patterns={}, has_tests={has_tests})\n",
        json!(packages),
        json!(settings.files),
    )
}

/// Returns the folder with the packages of the project, which are those that it locks.
fn packages(project: &Project) -> Result<PathBuf, CliError> {
    let environment = project.folder(ENVIRONMENT)?;
    let folder = project.folder(&format!("{ENVIRONMENT}/lib/site-packages"))?;
    let (path, installed) = (
        project.dir.join(REQUIREMENTS),
        environment.join(REQUIREMENTS),
    );
    let locked = fs::read_to_string(&path).unwrap_or_default();
    if fs::read_to_string(&installed).unwrap_or_default() == locked {
        return Ok(folder);
    }
    let doing = project.doing("install its packages");
    let failed = |error| CliError::new(Exit::Failed, &doing, error);
    fs::remove_dir_all(&folder).map_err(failed)?;
    let tool = tools::folder(&COMPONENTIZE_PY)?;
    let mut command = packages_of_pip(&tool, &path, &folder);
    project.run(&mut command, "install its packages")?;
    fs::write(&installed, locked).map_err(failed)?;
    Ok(folder)
}
