//! `host hero submit` and `run`: turns options into one job, and prints its id or waits for its end.

use std::collections::BTreeMap;

use clap::{ArgGroup, Args};
use host_console::client::{Answer, Client};
use host_console::error::{CliError, Exit};
use host_console::options::Remote;
use host_console::output::{Format, put_line};
use host_console::{human, input, json, plain};
use host_core::seconds::Seconds;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::wait;

/// Store a job and queue it for its worker.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host hero submit --worker w1 --script 'print(\"hello\"); 40 + 2'
  host hero submit --worker w1 --script @setup.heroscript --timeout 5m
  id=$(host hero submit --worker w1 --handler echo --params '{\"a\": 1}')
  host hero submit --worker w1 --script '\"after\"' --after $id")]
pub(super) struct Submit {
    #[command(flatten)]
    job: Job,
    #[command(flatten)]
    remote: Remote,
}

/// Submit a job, wait until it ends and print its output.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host hero run --worker w1 --script '40 + 2'
  host hero run --worker w1 --handler echo --params '{\"a\": 1}' --within 1m

Exit codes: 0 finished, 3 ended in error, 4 stopped, 7 the wait ran out.")]
pub(super) struct Run {
    #[command(flatten)]
    job: Job,
    /// Give up waiting after this long; the job goes on
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    within: Option<Seconds>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("what").required(true).args(["script", "handler"])))]
struct Job {
    /// The worker that runs it
    #[arg(long, value_name = "ID")]
    worker: String,
    /// Run this script (Rhai or HeroScript): its text, @FILE, or - for standard input
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    #[arg(conflicts_with = "params")]
    script: Option<String>,
    /// The language of the script, where the worker is not to see for itself
    #[arg(long, value_name = "LANGUAGE", requires = "script", value_parser = ["rhai", "heroscript"])]
    script_type: Option<String>,
    /// Run this handler that is deployed at the worker
    #[arg(long, value_name = "NAME")]
    handler: Option<String>,
    /// What the handler is called with: JSON, @FILE, or - for standard input
    #[arg(
        long,
        value_name = "JSON",
        requires = "handler",
        allow_hyphen_values = true
    )]
    params: Option<String>,
    /// Let an attempt take at most this long; whole seconds, 30s if absent
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    timeout: Option<Seconds>,
    /// Try again this often after failures
    #[arg(long, value_name = "N", value_parser = human::whole::<u32>(0, u32::MAX.into()))]
    retries: Option<u32>,
    /// Queue it only when this job has finished (repeatable)
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// The context it runs in
    #[arg(long, value_name = "ID")]
    context: Option<String>,
    /// Run no other job of its context beside it
    #[arg(long)]
    alone: bool,
    /// For whom it runs
    #[arg(long, value_name = "ID")]
    caller: Option<String>,
    /// Set an environment variable (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// A log file below the folder that the host is configured for
    #[arg(long, value_name = "PATH")]
    log_path: Option<String>,
    /// The job's id, a UUID; sent again with the same id nothing changes
    #[arg(long, value_name = "UUID")]
    id: Option<String>,
}

#[derive(Serialize)]
struct Request<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    worker_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    script: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    script_type: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    handler: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    params: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timeout_seconds: Option<Seconds>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retries: Option<u32>,
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    dependencies: &'a [String],
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    concurrent: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    caller_id: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    env_vars: BTreeMap<&'a str, &'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    log_path: Option<&'a str>,
}

#[derive(Deserialize)]
struct Submitted {
    id: String,
    #[serde(default)]
    existing: bool,
    #[serde(default)]
    waits_for: Vec<String>,
}

impl Submit {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let (answer, submitted) = self.job.submit(&client)?;
        let id = plain::line(&submitted.id);
        if output.is_human() {
            output.note(&submitted.line(&self.job.worker));
        }
        match output.format() {
            Format::Table | Format::Name => put_line(&id)?,
            Format::Json | Format::Jsonl => output.json(&answer.body)?,
        }
        output.hint(&format!("`host hero wait {id}` waits for its output"));
        Ok(())
    }
}

impl Run {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let (_, submitted) = self.job.submit(&client)?;
        if output.is_human() {
            output.note(&submitted.line(&self.job.worker));
            output.note(&format!("waiting for job {}", plain::line(&submitted.id)));
        }
        wait::until_end(&client, output, &submitted.id, self.within)
    }
}

impl Submitted {
    /// Says what became of it.
    fn line(&self, worker: &str) -> String {
        let worker = plain::line(worker);
        match self.waits_for.as_slice() {
            _ if self.existing => "there is a job of this id already; it is as it was".to_owned(),
            [] => format!("queued for {worker}"),
            [one] => format!("stored for {worker}; it waits for {}", plain::line(one)),
            [one, others @ ..] => format!(
                "stored for {worker}; it waits for {} and {} more",
                plain::line(one),
                others.len()
            ),
        }
    }
}

impl Job {
    fn submit(&self, client: &Client) -> Result<(Answer, Submitted), CliError> {
        let doing = format!("submit a job for worker {}", plain::line(&self.worker));
        let answer = client.post(&doing, "/api/v1/hero/jobs", &self.body()?)?;
        let submitted = answer.read(&doing)?;
        Ok((answer, submitted))
    }

    fn body(&self) -> Result<String, CliError> {
        let params = self.params.as_deref();
        let env = self.env.iter();
        let request = Request {
            id: self.id.as_deref(),
            worker_id: &self.worker,
            script: self.script.as_deref().map(script).transpose()?,
            script_type: self.script_type.as_deref(),
            handler: self.handler.as_deref(),
            params: params
                .map(|given| json::argument("--params", given))
                .transpose()?,
            timeout_seconds: self.timeout,
            retries: self.retries,
            dependencies: &self.after,
            context_id: self.context.as_deref(),
            concurrent: self.alone.then_some(false),
            caller_id: self.caller.as_deref(),
            env_vars: env
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect(),
            log_path: self.log_path.as_deref(),
        };
        serde_json::to_string(&request)
            .map_err(|error| CliError::new(Exit::Failed, "write the job as JSON", error))
    }
}

/// Reads a script: the text itself, `@FILE`, or `-` for standard input.
fn script(given: &str) -> Result<String, CliError> {
    let (from, read) = if given == "-" {
        ("standard input", input::standard())
    } else if let Some(path) = given.strip_prefix('@') {
        (path, input::file(path.as_ref()))
    } else {
        return Ok(given.to_owned());
    };
    read.map_err(|error| {
        let doing = format!("read the script from {}", plain::line(from));
        CliError::new(Exit::Usage, doing, error)
            .next("--script takes a text, @FILE with a readable file, or - for standard input")
    })
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, such as REGION=eu".to_owned()),
    }
}
