//! `host run`: runs a handler once on this machine, without a host. Its log goes to standard error,
//! its result to standard output.

use std::path::PathBuf;

use clap::Args;
use host_cells::deploy::examine::Flaw;
use host_cells::deploy::manifest;
use host_cells::process::once::RunEvent;
use host_console::error::{CliError, Exit};
use host_console::options::OutputOptions;
use host_console::output::{Format, Output, put_line, say};
use host_console::progress::Spinner;
use host_console::{human, json, plain};
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::outcome::{Meter, Outcome};
use host_server::config::{self, ForOneRun};
use host_server::once::{OnceError, OnceRequest, Session};
use serde::Serialize;
use serde_json::value::RawValue;

use crate::commands::grant_options::GrantOptions;
use crate::commands::serve;
use crate::component_file::component;
use crate::log;
use crate::manifest::{Manifest, Overrides};

/// Run a handler once on this machine, without a host.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host run target/guests/basics.wasm echo --params '{\"a\": 1}'
  host run report.wasm summary --params @input.json --timeout 10s -o json
  host run billing.wasm charge --grant-http https://api.example.com --secret api=API_KEY

The manifest applies as in `host deploy`, but it grants only what --grant-read, --grant-env and --grant-http allow. Nothing is stored and nothing is retried.
Compiled components are cached under $XDG_CACHE_HOME/host (or ~/.cache/host).

Exit codes: 0 completed, 3 failed or asked for a retry, 4 cancelled.")]
pub(crate) struct Run {
    /// The WebAssembly component
    file: PathBuf,
    /// The handler to run
    name: Name,
    /// The handler's params: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    params: Option<String>,
    /// Its manifest [default: FILE with the ending .toml, if there is one]
    #[arg(long, value_name = "FILE")]
    manifest: Option<PathBuf>,
    #[command(flatten)]
    granted: GrantOptions,
    #[command(flatten)]
    overrides: Overrides,
    #[command(flatten)]
    shown: OutputOptions,
}

#[derive(Serialize)]
struct View<'a> {
    outcome: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    result: Option<&'a RawValue>,
    #[serde(skip_serializing_if = "Option::is_none")]
    failure: Option<FailureView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_seconds: Option<f64>,
    fuel: u64,
    cpu_ms: f64,
    peak_memory_bytes: u64,
}

#[derive(Serialize)]
struct FailureView<'a> {
    kind: &'a str,
    message: &'a str,
}

impl Run {
    /// Runs the command.
    pub(crate) fn run(mut self) -> Result<(), CliError> {
        let output = self.shown.open();
        let file = self.file.display().to_string();
        let doing = format!("run {} of {}", self.name, plain::line(&file));
        let failed = |error: OnceError| CliError::new(Exit::Failed, &doing, error);
        let mut manifest = Manifest::read(&self.file, self.manifest.as_deref())?;
        for note in manifest.set_defaults(&self.overrides)? {
            output.note(&note);
        }
        let text = manifest.text(&doing)?.unwrap_or_default();
        let manifest =
            manifest::parse(&text).map_err(|error| failed(Flaw::Manifest(error).into()))?;
        let params = match &self.params {
            Some(given) => json::argument("--params", given)?.get().to_owned(),
            None => "null".to_owned(),
        };
        let environment = config::environment();
        let cache = config::cache(&environment).ok_or_else(|| {
            let cause = "there is no directory for the cache of compiled components";
            CliError::new(Exit::Failed, &doing, cause).next("set HOME or XDG_CACHE_HOME")
        })?;
        // What the command line itself asks for is granted.
        let (dirs, variables) = self.overrides.grants();
        self.granted.add(dirs, variables);
        let ForOneRun {
            confinement,
            environment,
            reach,
        } = config::for_one_run(&self.granted.values(), &self.granted.secrets, &environment)
            .map_err(|error| CliError::new(Exit::Usage, &doing, error))?;
        let asked = OnceRequest {
            component: component(&self.file)?,
            manifest,
            handler: self.name.clone(),
            environment,
            reach,
        };
        let spinner = Spinner::new(output, &doing);
        let program = serve::program(&doing, confinement)?;
        let (outcome, meter) = Session::start(program, cache, asked)
            .and_then(|mut session| {
                session.run(JsonText(params), |event| show(output, &spinner, event))
            })
            .map_err(failed)?;
        drop(spinner);
        print(output, &outcome, meter)
    }
}

fn show(output: Output, spinner: &Spinner, event: RunEvent) {
    match event {
        RunEvent::Log(lines) => {
            for line in lines {
                let label = log::label(line.source.as_str(), line.level.as_str());
                let fields = line
                    .fields
                    .iter()
                    .map(|(key, value)| (key.as_str(), value.plain()));
                let line = log::line(line.at_ms, label, &line.message, fields);
                spinner.above(|| say(&line));
            }
        }
        RunEvent::Progress(progress) if output.is_live() => {
            let percent = progress
                .percent
                .map(|percent| format!("{percent:.0} % "))
                .unwrap_or_default();
            spinner.say(&format!("{percent}{}", plain::line(&progress.message)));
        }
        RunEvent::Progress(_) => {}
    }
}

fn print(output: Output, outcome: &Outcome, meter: Meter) -> Result<(), CliError> {
    let (result, exit) = match outcome {
        Outcome::Completed { result } => (result.as_ref(), Exit::Ok),
        Outcome::Cancelled { partial } => (partial.as_ref(), Exit::Cancelled),
        Outcome::Failed(_) | Outcome::Retry { .. } => (None, Exit::JobFailed),
    };
    match output.format() {
        Format::Table | Format::Name => {
            if let Some(result) = result {
                put_line(&host_api::pretty::json(result.as_str()))?;
            }
            output.ending(&ending(outcome, meter), exit != Exit::Ok);
        }
        Format::Json | Format::Jsonl => output.json(&document(outcome, result, meter)?)?,
    }
    match exit {
        Exit::Ok => Ok(()),
        exit => Err(CliError::Silent(exit)),
    }
}

fn ending(outcome: &Outcome, meter: Meter) -> String {
    let how = match outcome {
        Outcome::Completed { .. } => "completed".to_owned(),
        Outcome::Cancelled { .. } => "cancelled".to_owned(),
        Outcome::Failed(failure) => {
            let message = plain::block(&failure.message);
            format!("failed: {}: {message}", failure.kind.as_str())
        }
        Outcome::Retry { reason, .. } => format!("asks for a retry: {}", plain::block(reason)),
    };
    let cpu = human::took(meter.cpu_us / 1_000);
    let memory = human::bytes(meter.peak_memory_bytes);
    let fuel = human::count(meter.fuel);
    format!("{how} ({cpu} CPU, {fuel} fuel, {memory} memory)")
}

fn document(
    outcome: &Outcome,
    result: Option<&JsonText>,
    meter: Meter,
) -> Result<String, CliError> {
    let failure = match outcome {
        Outcome::Failed(failure) => Some(FailureView {
            kind: failure.kind.as_str(),
            message: &failure.message,
        }),
        Outcome::Retry { reason, .. } => Some(FailureView {
            kind: "retry",
            message: reason,
        }),
        _ => None,
    };
    let unwritten = |error| CliError::new(Exit::Failed, "write the result as JSON", error);
    #[expect(
        clippy::cast_precision_loss,
        reason = "shown to people, in milliseconds"
    )]
    let view = View {
        outcome: outcome.as_str(),
        result: result
            .map(|result| serde_json::from_str(result.as_str()))
            .transpose()
            .map_err(unwritten)?,
        failure,
        retry_after_seconds: match outcome {
            Outcome::Retry { after_ms, .. } => after_ms.map(|ms| ms as f64 / 1e3),
            _ => None,
        },
        fuel: meter.fuel,
        cpu_ms: meter.cpu_us as f64 / 1e3,
        peak_memory_bytes: meter.peak_memory_bytes,
    };
    serde_json::to_string(&view).map_err(unwritten)
}
