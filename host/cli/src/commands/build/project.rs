//! The project of a component in any language: what it says of itself, its tests, its build, and where the results go.

mod javascript;
mod python;
mod rust;
mod tools;

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use host_cells::deploy::examine::COMPONENT_BYTES_MAX;
use host_console::error::{CliError, Exit};
use host_console::{human, plain};
use host_toolchain::Missing;
use host_toolchain::pinned::Registry;

/// The folder that is built into, unless cargo chooses another.
const TARGET_DIR: &str = "target";

/// The project of a component.
#[derive(Debug)]
pub(crate) struct Project {
    /// The name of its component.
    pub(crate) name: String,
    /// Its folder.
    pub(crate) dir: PathBuf,
    /// The folder that is built into.
    pub(crate) target: PathBuf,
    source: Source,
}

/// What it is written in.
#[derive(Debug)]
enum Source {
    Rust { library: String },
    JavaScript { main: String, engine: Engine },
    Python(python::Settings),
}

/// What runs JavaScript.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
enum Engine {
    #[default]
    QuickJs,
    StarlingMonkey,
}

/// What a component is built for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Jobs,
    /// It has the project's tests as one more handler.
    Tests,
}

impl Purpose {
    /// Returns the name of its file.
    const fn file(self) -> &'static str {
        match self {
            Self::Jobs => "component.wasm",
            Self::Tests => "tests.wasm",
        }
    }
}

/// A component that was built.
#[derive(Debug)]
pub(crate) struct Built {
    pub(crate) component: PathBuf,
    pub(crate) manifest: Option<PathBuf>,
    pub(crate) bytes: u64,
    /// What its handlers will miss when they run, each a sentence.
    pub(crate) warnings: Vec<String>,
}

/// What a builder has made.
#[derive(Debug)]
struct Component {
    component: PathBuf,
    /// What its handlers will miss when they run, each a sentence.
    warnings: Vec<String>,
}

impl From<PathBuf> for Component {
    fn from(component: PathBuf) -> Self {
        Self {
            component,
            warnings: Vec::new(),
        }
    }
}

/// Reads the project in a folder.
type Find = fn(&Path, &str) -> Result<Project, CliError>;

/// The file of a project in each language.
const LANGUAGES: [(&str, Find); 3] = [
    ("Cargo.toml", rust::find),
    ("package.json", javascript::find),
    ("pyproject.toml", python::find),
];

impl Project {
    /// Returns whether a folder has the file of a project.
    pub(crate) fn is_in(dir: &Path) -> bool {
        LANGUAGES.iter().any(|(file, _)| dir.join(file).exists())
    }

    /// Finds the project in `dir`.
    pub(crate) fn find(dir: &Path) -> Result<Self, CliError> {
        let shown = dir.display().to_string();
        let doing = format!("read the project in {}", plain::line(&shown));
        let wrong = |cause: &str| {
            CliError::new(Exit::Usage, &doing, cause)
                .next("pass the folder of a handler; `host new NAME` creates one")
        };
        let dir = std::path::absolute(dir)
            .and_then(std::fs::canonicalize)
            .map_err(|error| wrong(&error.to_string()))?;
        let mut languages = LANGUAGES.iter();
        let (_, find) = languages
            .find(|(file, _)| dir.join(file).exists())
            .ok_or_else(|| wrong("it has no Cargo.toml, package.json or pyproject.toml"))?;
        find(&dir, &doing)
    }

    /// Returns whether its builder shows progress itself.
    pub(crate) const fn shows_progress(&self) -> bool {
        matches!(self.source, Source::Rust { .. })
    }

    /// Runs its tests on this machine. What they print goes to standard error.
    pub(crate) fn test(&self) -> Result<(), CliError> {
        let mut command = match &self.source {
            Source::Rust { .. } => rust::test(self),
            Source::JavaScript { engine, .. } => javascript::test(self, *engine)?,
            Source::Python(settings) => python::test(self, settings)?,
        };
        self.run(&mut command, "run its tests")
    }

    /// Builds the component with its tests, unless its language runs them only on this machine.
    pub(crate) fn build_tests(&self) -> Result<Option<PathBuf>, CliError> {
        let purpose = Purpose::Tests;
        match &self.source {
            Source::Rust { .. } => Ok(None),
            Source::JavaScript { main, engine } => {
                javascript::build(self, main, *engine, purpose).map(|made| Some(made.component))
            }
            Source::Python(settings) => {
                python::build(self, settings, purpose).map(|made| Some(made.component))
            }
        }
    }

    /// Builds the component and puts it and its manifest into the target folder.
    pub(crate) fn build(&self) -> Result<Built, CliError> {
        let made = match &self.source {
            Source::Rust { library } => rust::build(self, library)?.into(),
            Source::JavaScript { main, engine } => {
                javascript::build(self, main, *engine, Purpose::Jobs)?
            }
            Source::Python(settings) => python::build(self, settings, Purpose::Jobs)?,
        };
        let failed = |error| CliError::new(Exit::Failed, self.doing("build it"), error);
        let bytes = std::fs::metadata(&made.component).map_err(failed)?.len();
        self.check_size(bytes)?;
        self.deliver(made).map_err(failed)
    }

    /// Refuses a component that no host accepts.
    fn check_size(&self, bytes: u64) -> Result<(), CliError> {
        let most = COMPONENT_BYTES_MAX as u64;
        if bytes <= most {
            return Ok(());
        }
        let cause = format!(
            "the component has {}, and a host accepts at most {}",
            human::bytes(bytes),
            human::bytes(most)
        );
        let next = match &self.source {
            Source::Rust { .. } => {
                "leave out large data and dependencies, or build with opt-level = \"s\" below [profile.release]"
            }
            Source::JavaScript { .. } => {
                "leave out large packages, and make large tables in the handler: those made at import are in the component"
            }
            Source::Python(_) => {
                "import large packages and make large tables inside the handlers that use them: what a module imports at the top is in the component twice, as a file and as memory"
            }
        };
        Err(CliError::new(Exit::Failed, self.doing("build it"), cause).next(next))
    }

    fn deliver(&self, made: Component) -> io::Result<Built> {
        let component = self.target.join(format!("{}.wasm", self.name));
        let bytes = std::fs::copy(made.component, &component)?;
        let manifest = self.target.join(format!("{}.toml", self.name));
        let written = self.dir.join(format!("{}.toml", self.name));
        let has_manifest = written.exists();
        if has_manifest {
            std::fs::copy(&written, &manifest)?;
        } else if manifest.exists() {
            // It belongs to an earlier build.
            std::fs::remove_file(&manifest)?;
        }
        Ok(Built {
            component,
            manifest: has_manifest.then_some(manifest),
            bytes,
            warnings: made.warnings,
        })
    }

    /// Says what is being done to it.
    pub(crate) fn doing(&self, what: &str) -> String {
        let dir = self.dir.display().to_string();
        format!("{what}: {} in {}", self.name, plain::line(&dir))
    }

    /// Runs a command in its folder, unless the command has another.
    fn run(&self, command: &mut Command, what: &str) -> Result<(), CliError> {
        if command.get_current_dir().is_none() {
            command.current_dir(&self.dir);
        }
        run(command, &self.doing(what), "see the output above")
    }

    /// Makes a folder for intermediate files, below the target folder.
    fn folder(&self, name: &str) -> Result<PathBuf, CliError> {
        let folder = self.target.join(name);
        std::fs::create_dir_all(&folder)
            .map_err(|error| CliError::new(Exit::Failed, self.doing("build it"), error))?;
        Ok(folder)
    }
}

/// Runs a command. What it prints goes to standard error. `next` is what to do if it fails.
fn run(command: &mut Command, doing: &str, next: &str) -> Result<(), CliError> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).stdout(io::stderr()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            let cause = format!("{program} failed ({status})");
            Err(CliError::new(Exit::Failed, doing, cause).next(next))
        }
        Err(error) => Err(cannot_start(doing, &program, &error)),
    }
}

fn cannot_start(doing: &str, program: &str, error: &io::Error) -> CliError {
    let advice = match program {
        "node" | "npm" => Registry::Npm.advice().to_owned(),
        "python3" => Registry::PyPi.advice().to_owned(),
        _ => Missing::Rust.advice(),
    };
    CliError::new(
        Exit::Failed,
        doing,
        format!("cannot start {program}: {error}"),
    )
    .next(advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_component_that_no_host_accepts_is_refused_with_advice() {
        let size = COMPONENT_BYTES_MAX as u64;
        for (source, advice) in [
            (
                Source::Python(python::Settings::default()),
                "inside the handlers",
            ),
            (
                Source::JavaScript {
                    main: "handlers.js".to_owned(),
                    engine: Engine::QuickJs,
                },
                "in the handler",
            ),
            (
                Source::Rust {
                    library: "a".to_owned(),
                },
                "opt-level",
            ),
        ] {
            let project = Project {
                name: "a".to_owned(),
                dir: PathBuf::from("/a"),
                target: PathBuf::from("/a/target"),
                source,
            };
            project.check_size(size).unwrap();
            let refused = project
                .check_size(size + (2 << 20))
                .unwrap_err()
                .to_string();
            assert!(refused.contains("34.0 MiB"), "{refused}");
            assert!(refused.contains("at most 32.0 MiB"), "{refused}");
            assert!(refused.contains(advice), "{refused}");
        }
    }
}
