//! The tests of a project in its component: each runs in a fresh instance, in a cell, and says how it ended.

use std::fs;
use std::path::Path;

use host_cells::deploy::manifest;
use host_cells::process::once::RunEvent;
use host_console::error::{CliError, Exit};
use host_console::output::{Output, say};
use host_console::progress::Progress;
use host_console::{human, plain};
use host_core::handler::Limits;
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::Outcome;
use host_core::seconds::Seconds;
use host_engine::component::{Manifest, ManifestSection};
use host_runtime::clock::Clock;
use host_server::config::{self, ForOneRun};
use host_server::once::{OnceError, OnceRequest, Session};
use serde::{Deserialize, Serialize};

use super::project::Project;
use crate::commands::grant_options::GrantOptions;
use crate::commands::serve;
use crate::manifest::Manifest as ManifestFile;

/// The handler that a component has for its tests: without params it lists them, with a number it runs that one.
const HANDLER: Name = Name::constant("host:tests");

/// How the tests of a project have ended.
pub(super) struct TestRun {
    pub(super) ended: Vec<TestEnd>,
}

/// How a test has ended.
#[derive(Serialize)]
pub(super) struct TestEnd {
    name: String,
    outcome: Verdict,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<String>,
    /// What it has logged, in order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    log: Vec<String>,
    ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Verdict {
    Passed,
    Failed,
    Skipped,
}

/// What the component says about a test.
#[derive(Deserialize)]
struct Report {
    outcome: Verdict,
    message: Option<String>,
}

impl TestRun {
    /// Builds the tests of a project and runs them, and shows how each ends. Returns `None` if they run only on this machine.
    pub(super) fn make(project: &Project, output: Output) -> Result<Option<Self>, CliError> {
        let clock = Clock::start();
        let begin = clock.now();
        let progress = Progress::new(output, &format!("build the tests of {}", project.name));
        let Some(component) = project.build_tests()? else {
            return Ok(None);
        };
        let mut cell = TestCell::start(project, &component)?;
        let names = cell.list()?;
        drop(progress);
        let built = clock.now();
        let mut ended = Vec::with_capacity(names.len());
        for (number, name) in names.into_iter().enumerate() {
            let end = cell.run(number, name)?;
            end.show(output);
            ended.push(end);
        }
        let run = Self { ended };
        run.sum_up(output, built.since_ms(begin), clock.now().since_ms(begin));
        Ok(Some(run))
    }

    /// Counts the tests that ended so.
    pub(super) fn count(&self, verdict: Verdict) -> usize {
        self.ended
            .iter()
            .filter(|end| end.outcome == verdict)
            .count()
    }

    fn sum_up(&self, output: Output, built_ms: u64, all_ms: u64) {
        if self.ended.is_empty() {
            output.note("no tests: their files are named test….py, ….test.js or ….test.ts");
            return;
        }
        let counted = [
            (Verdict::Passed, "passed"),
            (Verdict::Failed, "failed"),
            (Verdict::Skipped, "skipped"),
        ]
        .map(|(verdict, word)| format!("{} {word}", self.count(verdict)));
        output.note(&format!(
            "tests: {} in {}, of which building and compiling them took {}",
            counted.join(", "),
            human::took(all_ms),
            human::took(built_ms)
        ));
    }
}

impl TestEnd {
    fn show(&self, output: Output) {
        let word = match self.outcome {
            Verdict::Passed => "passed",
            Verdict::Failed => "failed",
            Verdict::Skipped => "skipped",
        };
        let line = format!(
            "{word}: {} ({})",
            plain::line(&self.name),
            human::took(self.ms)
        );
        if self.outcome != Verdict::Failed {
            let message = self.message.as_deref().unwrap_or_default();
            let why = if message.is_empty() { "" } else { ": " };
            return output.note(&format!("{line}{why}{}", plain::line(message)));
        }
        say(&line);
        let message = self.message.iter().flat_map(|text| text.lines());
        let logged = self.log.iter().flat_map(|text| text.lines());
        for line in message {
            say(&format!("    {}", plain::line(line)));
        }
        for line in logged {
            say(&format!("  | {}", plain::line(line)));
        }
    }
}

/// The component with the tests, in a cell.
struct TestCell {
    session: Session,
    doing: String,
}

impl TestCell {
    fn start(project: &Project, component: &Path) -> Result<Self, CliError> {
        let doing = project.doing("run its tests");
        let failed = |error: &dyn std::fmt::Display| CliError::new(Exit::Failed, &doing, error);
        let environment = config::environment();
        let cache = config::cache(&environment)
            .ok_or_else(|| failed(&"no cache folder").next("set HOME or XDG_CACHE_HOME"))?;
        // Tests are granted nothing.
        let ForOneRun {
            confinement,
            environment,
            reach,
        } = config::for_one_run(&GrantOptions::default().values(), &[], &environment)
            .map_err(|error| failed(&error))?;
        let asked = OnceRequest {
            component: fs::read(component).map_err(|error| failed(&error))?,
            manifest: limits_of(project)?,
            handler: HANDLER,
            environment,
            reach,
        };
        // Code of the quick compiler needs more stack: calls could not be nested as deeply as in jobs.
        let program = serve::program(&doing, confinement)?;
        let session = Session::start(program, cache, asked).map_err(|error| failed(&error))?;
        Ok(Self { session, doing })
    }

    /// Returns the names of the tests.
    fn list(&mut self) -> Result<Vec<String>, CliError> {
        let (outcome, log) = self.attempt("null".to_owned())?;
        match outcome {
            Outcome::Completed {
                result: Some(result),
            } => serde_json::from_str(result.as_str())
                .map_err(|error| CliError::new(Exit::Failed, &self.doing, error)),
            other => {
                let cause = [message_of(&other), log.join("\n")].join("\n");
                Err(CliError::new(
                    Exit::Failed,
                    &self.doing,
                    plain::block(cause.trim()),
                ))
            }
        }
    }

    fn run(&mut self, number: usize, name: String) -> Result<TestEnd, CliError> {
        let clock = Clock::start();
        let begin = clock.now();
        let (outcome, log) = self.attempt(number.to_string())?;
        let report = match &outcome {
            Outcome::Completed {
                result: Some(result),
            } => serde_json::from_str(result.as_str())
                .map_err(|error| CliError::new(Exit::Failed, &self.doing, error))?,
            other => Report {
                outcome: Verdict::Failed,
                message: Some(message_of(other)),
            },
        };
        Ok(TestEnd {
            name,
            outcome: report.outcome,
            message: report.message,
            log,
            ms: clock.now().since_ms(begin),
        })
    }

    /// Runs the handler once and returns what it has logged with how it ended.
    fn attempt(&mut self, params: String) -> Result<(Outcome, Vec<String>), CliError> {
        let mut log = Vec::new();
        let (outcome, _) = self
            .session
            .run(JsonText(params), |event| {
                if let RunEvent::Log(lines) = event {
                    log.extend(lines.into_iter().map(|line| line.message));
                }
            })
            .map_err(|error: OnceError| CliError::new(Exit::Failed, &self.doing, error))?;
        Ok((outcome, log))
    }
}

/// Says how a run has ended that did not complete.
fn message_of(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Failed(failure) => {
            let kind = failure.error_name();
            let said = format!("{kind}: {}", failure.message);
            match &failure.stack {
                Some(stack) if stack.contains(&said) => stack.clone(),
                Some(stack) => format!("{said}\n{stack}"),
                None => said,
            }
        }
        Outcome::Retry { reason, .. } => format!("the test asks for a retry: {reason}"),
        Outcome::Cancelled { .. } => "the test says that it was cancelled".to_owned(),
        Outcome::Completed { .. } => "the test returned nothing".to_owned(),
    }
}

/// Returns a manifest in which tests have the largest limits of any handler, at least those that handlers have by default.
fn limits_of(project: &Project) -> Result<Manifest, CliError> {
    let file = project.dir.join(format!("{}.toml", project.name));
    let read = ManifestFile::read(&file, None)?;
    let text = read
        .text(&project.doing("run its tests"))?
        .unwrap_or_default();
    let own = manifest::parse(&text)
        .map_err(|error| CliError::new(Exit::Failed, project.doing("run its tests"), error))?;
    let limits = own.handlers.keys().map(|name| own.limits(name));
    let all = limits.chain([own.limits(&HANDLER), Limits::default()]);
    let (mut memory_bytes, mut timeout_ms) = (0, 0);
    for limits in all {
        memory_bytes = memory_bytes.max(limits.memory_bytes);
        timeout_ms = timeout_ms.max(limits.timeout_ms);
    }
    Ok(Manifest {
        defaults: ManifestSection {
            memory_mib: Some(memory_bytes >> 20),
            timeout_seconds: Some(Seconds { ms: timeout_ms }),
            ..ManifestSection::default()
        },
        ..Manifest::default()
    })
}
