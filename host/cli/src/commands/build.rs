//! `host build`: builds the project of a handler into a component, with the compiler that this machine has or the builder of
//! its language, and puts the manifest beside it.

pub(crate) mod project;

use std::path::PathBuf;

use clap::Args;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::{put_line, say};
use host_console::{human, plain};
use serde_json::json;

use self::project::Project;

/// Build a handler's project into a component.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host build
  host build word-count --test
  host deploy $(host build word-count -q)

The component and its manifest are written to target/NAME.wasm and target/NAME.toml.

Rust needs the target wasm32-wasip2 (`rustup target add wasm32-wasip2`), or Debian's packages
rustc-web, cargo-web, rust-web-src and wasi-libc beside it. JavaScript and TypeScript need Node.js
20 or later with npm, Python needs version 3.10 or later with pip. The first build installs the
builder of the language into the cache folder of the user; later builds use no network.")]
pub(crate) struct Build {
    /// The folder of the project
    #[arg(default_value = ".")]
    dir: PathBuf,
    /// Run the project's tests first
    #[arg(long)]
    test: bool,
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
        if self.test {
            project.test()?;
        }
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
}
