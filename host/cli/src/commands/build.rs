//! `host build`: builds the project of a handler into a component, with the compiler that this machine has or the builder of
//! its language, and puts the manifest beside it.

pub(crate) mod project;
mod test_run;

use std::path::PathBuf;

use clap::Args;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::{Format, Output, put_line, say};
use host_console::{human, plain};
use serde_json::json;

use self::project::Project;
use self::test_run::{TestRun, Verdict};

/// Build a handler's project into a component.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host build
  host build word-count --test
  host build word-count --test --local
  host deploy $(host build word-count -q)

The component and its manifest are written to target/NAME.wasm and target/NAME.toml.

Tests in Python, JavaScript and TypeScript run in a component that is built for them, each in an
instance of its own: what passes there passes in jobs.

Rust needs the target wasm32-wasip2 (`rustup target add wasm32-wasip2`), or Debian's packages
rustc-web, cargo-web, rust-web-src and wasi-libc beside it. JavaScript and TypeScript need Node.js
20 or later with npm, Python needs version 3.10 or later with pip. The first build installs the
builder of the language into the cache folder of the user; later builds use no network.")]
pub(crate) struct Build {
    /// The folder of the project
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Run the project's tests first: in the component, or on this machine if they are in Rust
    #[arg(long)]
    test: bool,
    /// Run the tests on this machine, without a component
    #[arg(long, requires = "test")]
    local: bool,
    /// Fail if the handlers will miss something when they run
    #[arg(long)]
    strict: bool,
    #[command(flatten)]
    shown: OutputOptions,
}

impl Build {
    /// Runs the command.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let output = self.shown.open();
        let project = Project::find(&self.dir)?;
        let tests = if self.test {
            self.run_tests(&project, output)?
        } else {
            None
        };
        let built = project.build()?;
        for warning in &built.warnings {
            say(&format!("warning: {}", plain::line(warning)));
        }
        if self.strict && !built.warnings.is_empty() {
            return Err(
                CliError::new(Exit::Failed, "build it", "there are warnings, see above")
                    .next("mend them, or build without --strict"),
            );
        }
        let component = built.component.display().to_string();
        let shown = plain::line(&component);
        let document = json!({
            "component": built.component,
            "manifest": built.manifest,
            "bytes": built.bytes,
            "warnings": built.warnings,
            "tests": tests.map(|tests| tests.ended),
        });
        output.print_item(&document.to_string(), &shown, || put_line(&shown))?;
        if output.is_human() {
            output.note(&format!(
                "built {}, {}",
                project.name,
                human::bytes(built.bytes)
            ));
        }
        output.hint(&format!("`host deploy {shown}` deploys it"));
        Ok(())
    }

    /// Returns how the tests have ended, unless their own program has shown it.
    fn run_tests(&self, project: &Project, output: Output) -> Result<Option<TestRun>, CliError> {
        let run = if self.local {
            None
        } else {
            TestRun::make(project, output)?
        };
        let Some(run) = run else {
            return project.test().map(|()| None);
        };
        let failed = run.count(Verdict::Failed);
        if failed == 0 {
            return Ok(Some(run));
        }
        if matches!(output.format(), Format::Json | Format::Jsonl) {
            output.json(&json!({"tests": run.ended}).to_string())?;
        }
        let cause = format!("{failed} of {} tests failed", run.ended.len());
        Err(
            CliError::new(Exit::Failed, project.doing("build it"), cause).next(
                "see above; `host build --test --local` runs them on this machine, with its debugger",
            ),
        )
    }
}
