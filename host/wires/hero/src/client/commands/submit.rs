//! `host hero submit` and `run`: turns options into one job, and prints its id or waits for its end.

use clap::{ArgGroup, Args};
use host_api::client::{Answer, Client};
use host_console::error::{CliError, cannot};
use host_console::options::Remote;
use host_console::output::{Format, put_line};
use host_console::{human, input, json, plain};
use host_core::seconds::Seconds;

use super::wait;
use crate::client::api::path::JOBS;
use crate::client::api::submit::{NewHeroJob, SubmittedView};

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

Exit codes: 0 finished, 3 ended in error, 4 stopped, 7 the wait timed out.")]
pub(super) struct Run {
    #[command(flatten)]
    job: Job,
    /// Give up waiting after this long; the job continues
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
    /// The language of the script; detected by the worker if absent
    #[arg(long, value_name = "LANGUAGE", requires = "script", value_parser = ["rhai", "heroscript"])]
    script_type: Option<String>,
    /// Run this handler that is deployed at the worker
    #[arg(long, value_name = "NAME")]
    handler: Option<String>,
    /// The handler's params: JSON, @FILE, or - for standard input
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
    /// Retry up to this many times after failures
    #[arg(long, value_name = "N", value_parser = human::whole::<u32>(0, u32::MAX.into()))]
    retries: Option<u32>,
    /// Queue it only when this job has finished (repeatable)
    #[arg(long, value_name = "ID")]
    after: Vec<String>,
    /// The context it runs in
    #[arg(long, value_name = "ID")]
    context_id: Option<String>,
    /// Run no other job of its context beside it
    #[arg(long)]
    alone: bool,
    /// The sender of the job
    #[arg(long, value_name = "ID")]
    caller: Option<String>,
    /// Set an environment variable (repeatable)
    #[arg(long, value_name = "NAME=VALUE", value_parser = parse_variable)]
    env: Vec<(String, String)>,
    /// A log file below the host's folder for log files
    #[arg(long, value_name = "PATH")]
    log_path: Option<String>,
    /// The job's id, a UUID; submitting the same id again changes nothing
    #[arg(long, value_name = "UUID")]
    id: Option<String>,
}

impl Submit {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let answer = self.job.submit(&client)?;
        let id = plain::line(&answer.view.id);
        if output.is_human() {
            output.note(&line(&answer.view, &self.job.worker));
        }
        match output.format() {
            Format::Table | Format::Name => put_line(&id)?,
            Format::Json | Format::Jsonl => output.json(&answer.json)?,
        }
        output.hint(&format!("`host hero wait {id}` waits for its output"));
        Ok(())
    }
}

impl Run {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let submitted = self.job.submit(&client)?.view;
        if output.is_human() {
            output.note(&line(&submitted, &self.job.worker));
            output.note(&format!("waiting for job {}", plain::line(&submitted.id)));
        }
        wait::until_end(&client, output, &submitted.id, self.within)
    }
}

/// Says what became of a submission.
fn line(submitted: &SubmittedView, worker: &str) -> String {
    let worker = plain::line(worker);
    match submitted.waits_for.as_slice() {
        _ if submitted.existing => "a job with this id already exists; it is unchanged".to_owned(),
        [] => format!("queued for {worker}"),
        [one] => format!("stored for {worker}; it waits for {}", plain::line(one)),
        [one, others @ ..] => format!(
            "stored for {worker}; it waits for {} and {} more",
            plain::line(one),
            others.len()
        ),
    }
}

impl Job {
    fn submit(&self, client: &Client) -> Result<Answer<SubmittedView>, CliError> {
        let doing = format!("submit a job for worker {}", plain::line(&self.worker));
        client.post(JOBS, &self.body()?).map_err(cannot(&doing))
    }

    fn body(&self) -> Result<NewHeroJob, CliError> {
        let script = self
            .script
            .as_deref()
            .map(|given| input::argument("--script", "a text", given));
        let params = self
            .params
            .as_deref()
            .map(|given| json::argument("--params", given));
        Ok(NewHeroJob {
            id: self.id.clone(),
            worker_id: self.worker.clone(),
            script: script.transpose()?.map(|(_source, script)| script),
            script_type: self.script_type.clone(),
            handler: self.handler.clone(),
            params: params.transpose()?,
            timeout_seconds: self.timeout,
            retries: self.retries.unwrap_or_default(),
            dependencies: self.after.iter().cloned().collect(),
            context_id: self.context_id.clone(),
            concurrent: self.alone.then_some(false),
            caller_id: self.caller.clone(),
            env_vars: self.env.iter().cloned().collect(),
            log_path: self.log_path.clone(),
        })
    }
}

fn parse_variable(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), value.to_owned())),
        _ => Err("write NAME=VALUE, such as REGION=eu".to_owned()),
    }
}
