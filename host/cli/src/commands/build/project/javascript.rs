//! A project in JavaScript or TypeScript: its packages, its tests, and its build in one of two engines.

use std::fmt::Display;
use std::fs;
use std::path::Path;
use std::process::Command;

use host_console::error::{CliError, Exit};
use host_toolchain::pinned::{Pinned, QUICKJS, STARLINGMONKEY, packages_of_npm};
use serde::Deserialize;

use super::{Component, Engine, Project, Purpose, Source, TARGET_DIR, tools};

const LOCK: &str = "package-lock.json";

/// What npm has installed, and the lock file that it did so by.
const INSTALLED: &str = "node_modules";
const INSTALLED_BY: &str = "node_modules/.host-lock.json";

/// The folder below the target folder for what is bundled.
const BUNDLES: &str = "javascript";

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case")]
struct PackageJson {
    name: String,
    #[serde(default = "main")]
    main: String,
    #[serde(default)]
    host_jobs: Settings,
}

/// What the builder has found, in the folder for what is bundled.
#[derive(Deserialize)]
struct Report {
    warnings: Vec<String>,
}

const REPORT: &str = "report.json";

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(default)]
    engine: Engine,
}

fn main() -> String {
    "handlers.js".to_owned()
}

impl Engine {
    const fn builder(self) -> &'static Pinned {
        match self {
            Self::QuickJs => &QUICKJS,
            Self::StarlingMonkey => &STARLINGMONKEY,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::QuickJs => "quickjs",
            Self::StarlingMonkey => "starlingmonkey",
        }
    }
}

/// Reads `package.json` in `dir`.
pub(super) fn find(dir: &Path, doing: &str) -> Result<Project, CliError> {
    let wrong = |error: &dyn Display| {
        let cause = format!("package.json: {error}");
        CliError::new(Exit::Usage, doing, cause)
            .next("compare it with that of `host new NAME --lang js`")
    };
    let text = fs::read_to_string(dir.join("package.json")).map_err(|error| wrong(&error))?;
    let read: PackageJson = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    // The name may be below that of an organization.
    let name = read.name.rsplit('/').next().unwrap_or_default();
    Ok(Project {
        name: name.to_owned(),
        dir: dir.to_owned(),
        target: dir.join(TARGET_DIR),
        source: Source::JavaScript {
            main: read.main,
            engine: read.host_jobs.engine,
        },
    })
}

/// Makes the command that checks its types, if it has any, and runs its tests on this machine.
pub(super) fn test(project: &Project, engine: Engine) -> Result<Command, CliError> {
    packages(project)?;
    let mut command = builder(engine)?;
    command.arg("test").arg(project.folder(BUNDLES)?);
    Ok(command)
}

/// Builds the component and returns its file.
pub(super) fn build(
    project: &Project,
    main: &str,
    engine: Engine,
    purpose: Purpose,
) -> Result<Component, CliError> {
    packages(project)?;
    let folder = project.folder(BUNDLES)?;
    let component = folder.join(purpose.file());
    let mut command = builder(engine)?;
    command.arg(engine.name()).arg(&component);
    if purpose == Purpose::Jobs {
        command.arg(main);
    }
    project.run(&mut command, "build it")?;
    let failed =
        |error: &dyn Display| CliError::new(Exit::Failed, project.doing("build it"), error);
    let text = fs::read_to_string(folder.join(REPORT)).map_err(|error| failed(&error))?;
    let report: Report = serde_json::from_str(&text).map_err(|error| failed(&error))?;
    Ok(Component {
        component,
        warnings: report.warnings,
    })
}

fn builder(engine: Engine) -> Result<Command, CliError> {
    let builder = engine.builder();
    Ok(builder.program(&tools::folder(builder)?))
}

/// Installs the packages that the project locks, unless they are.
fn packages(project: &Project) -> Result<(), CliError> {
    let installed_by = project.dir.join(INSTALLED_BY);
    let locked = fs::read_to_string(project.dir.join(LOCK)).map_err(|error| {
        let cause = format!("{LOCK}: {error}");
        CliError::new(Exit::Failed, project.doing("install its packages"), cause)
            .next("`npm install` writes it")
    })?;
    if fs::read_to_string(&installed_by).is_ok_and(|by| by == locked) {
        return Ok(());
    }
    project.run(&mut packages_of_npm(), "install its packages")?;
    // npm makes no folder if there is nothing to install.
    fs::create_dir_all(project.dir.join(INSTALLED))
        .and_then(|()| fs::write(installed_by, locked))
        .map_err(|error| CliError::new(Exit::Failed, project.doing("install its packages"), error))
}
