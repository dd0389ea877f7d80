//! `host job enqueue`: turns options into one enqueue and prints the id, or waits for the result.

use std::collections::BTreeMap;

use clap::Args;
use host_api::client::Client;
use host_api::depends_on::DependsOnBody;
use host_api::new_job::{NewJobBody, OnConflictBody, ScopeBody, UniqueBody};
use host_api::words::choice;
use host_console::error::{CliError, cannot};
use host_console::options::Remote;
use host_console::output::{Format, put_line};
use host_console::{human, json, plain};
use host_core::json::Pairs;
use host_core::prerequisite::When;
use host_core::seconds::Seconds;
use serde_json::value::RawValue;

use super::super::notify::NotifyArgs;
use super::{ID_CHARS, fetch, has_ended, parse_id, parse_pair, short_id, wait};
use crate::complete;

/// Enqueue a job for a handler.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job enqueue echo --params '{\"a\": 1}' --wait
  host job enqueue report --params @input.json --queue nightly --run-at 2026-05-17T02:00:00Z
  id=$(host job enqueue build --unique-key build-42)
  host job enqueue report --input rows=01990f3c
  host job enqueue resize --file photo=$(host artifact put photo.jpg)
  host job enqueue tidy-up --depends-on 01990f3c:failed
  host job enqueue pay --notify https://hooks.example.com/paid --notify-secret hooks
  host job enqueue index --params '{\"page\": 7}' --unique-key page-7 --on-conflict push_back --delay 30s")]
pub(super) struct Enqueue {
    /// The handler to run
    #[arg(add = complete::handlers())]
    name: String,
    /// The handler's params: JSON, @FILE, or - for standard input
    #[arg(long, value_name = "JSON", allow_hyphen_values = true)]
    params: Option<String>,
    /// The queue to put the job in
    #[arg(long)]
    #[arg(add = complete::queues())]
    queue: Option<String>,
    /// 0 starts first, 9 last
    #[arg(long, value_name = "0-9", value_parser = human::whole::<u8>(0, 9))]
    priority: Option<u8>,
    /// Do not start before this time
    #[arg(long, value_name = "TIME", value_parser = human::parse_time, conflicts_with = "delay")]
    run_at: Option<String>,
    /// Delay the start by this long
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    delay: Option<Seconds>,
    /// Run no attempt after this time
    #[arg(long, value_name = "TIME", value_parser = human::parse_time)]
    deadline: Option<String>,
    /// Make at most this many attempts
    #[arg(long, value_name = "N", value_parser = human::whole::<u32>(1, u32::MAX.into()))]
    max_attempts: Option<u32>,
    /// Let an attempt take at most this long
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    timeout: Option<Seconds>,
    /// Keep the job this long after it has ended
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    retention: Option<Seconds>,
    /// Keep the job this long if it is discarded
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration)]
    retention_discarded: Option<Seconds>,
    /// If a job in scope has this key in the queue already, return that job instead
    #[arg(long, value_name = "KEY")]
    unique_key: Option<String>,
    /// Which earlier jobs count: `active` for one that has not ended, `retained` for any that
    /// is kept, or a duration for one that was enqueued within it
    #[arg(long, value_name = "SCOPE", value_parser = parse_scope, requires = "unique_key")]
    unique_scope: Option<ScopeBody>,
    /// If that job has not begun: `keep` it, `replace` its params with these, or also `push_back` its start to that
    /// of this job [default: keep]
    #[arg(long, value_name = "CHOICE", value_parser = choice::<OnConflictBody>, requires = "unique_key")]
    on_conflict: Option<OnConflictBody>,
    /// With `push_back`, start it no later than this long after it was first enqueued
    #[arg(long, value_name = "DURATION", value_parser = human::parse_duration, requires = "on_conflict")]
    max_delay: Option<Seconds>,
    /// Start only when this job has completed; with `:ended`, when it has ended in any way, and with `:failed`, only if
    /// it is discarded (repeatable)
    #[arg(long, value_name = "ID[:WHEN]", value_parser = parse_prerequisite)]
    depends_on: Vec<DependsOnBody>,
    /// Start when this job has completed as well, with its result as `/inputs/NAME` in the params (repeatable)
    #[arg(long = "input", value_name = "NAME=ID", value_parser = parse_input)]
    inputs: Vec<(String, String)>,
    /// Let the handler read a file by this name: an upload of `host artifact put`, or an artifact of another job, which it
    /// starts after (repeatable)
    #[arg(long = "file", value_name = "NAME=UPLOAD|ID/ARTIFACT", value_parser = parse_file)]
    files: Vec<(String, String)>,
    /// Attach a value that the handler sees (repeatable)
    #[arg(long = "attribute", value_name = "KEY=VALUE", value_parser = parse_pair)]
    attributes: Vec<(String, String)>,
    #[command(flatten)]
    notify: NotifyArgs,
    /// Wait until the job ends and print its result
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    remote: Remote,
}

fn parse_scope(text: &str) -> Result<ScopeBody, String> {
    match text {
        "active" => Ok(ScopeBody::Active),
        "retained" => Ok(ScopeBody::Retained),
        _ => human::parse_duration(text)
            .map(|within| ScopeBody::Seconds(within.into()))
            .map_err(|error| format!("expected active, retained or a duration: {error}")),
    }
}

impl Enqueue {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = format!("enqueue {}", plain::line(&self.name));
        let params = self
            .params
            .as_deref()
            .map(|given| json::argument("--params", given))
            .transpose()?;
        let is_awaited = self.wait;
        let name = plain::line(&self.name).into_owned();
        let job = self.job(&client, params)?;
        let answer = client.enqueue(&job).map_err(cannot(&doing))?;
        let accepted = answer.view;
        let id = plain::line(&accepted.id);
        let state = plain::line(&accepted.state);
        if output.is_human() {
            output.note(&if accepted.existing {
                let params = if accepted.existing_params_differ {
                    " and has other params"
                } else {
                    ""
                };
                format!("a job with this unique key already exists; it is {state}{params}")
            } else {
                format!("enqueued {name}; it is {state}")
            });
        }
        if is_awaited {
            if output.is_human() {
                output.note(&format!("waiting for job {}", short_id(&id)));
            }
            return wait::until_end(&client, output, &accepted.id, None);
        }
        match output.format() {
            Format::Table | Format::Name => put_line(&id)?,
            Format::Json | Format::Jsonl => output.json(&answer.json)?,
        }
        let id = short_id(&id);
        output.hint(&if has_ended(&accepted.state) {
            format!("`host job show {id}` shows how it ended")
        } else {
            format!("`host job wait {id}` waits for its result")
        });
        Ok(())
    }

    fn job(self, client: &Client, params: Option<Box<RawValue>>) -> Result<NewJobBody, CliError> {
        let key = self.unique_key;
        let (unique_key, unique) = match (self.unique_scope, self.on_conflict) {
            (None, None) => (key, None),
            (scope, on_conflict) => {
                let unique = key.map(|key| UniqueBody {
                    scope: scope.unwrap_or_default(),
                    on_conflict,
                    max_delay_seconds: self.max_delay,
                    ..UniqueBody::active(key)
                });
                (None, unique)
            }
        };
        let mut depends_on = self
            .depends_on
            .iter()
            .map(|it| {
                Ok(DependsOnBody::new(
                    full_id(client, it.job(), "--depends-on")?,
                    it.when(),
                ))
            })
            .collect::<Result<Vec<_>, CliError>>()?;
        let mut inputs = BTreeMap::new();
        for (name, id) in self.inputs {
            let id = full_id(client, &id, "--input")?;
            if depends_on.iter().all(|it| it.job() != id) {
                depends_on.push(id.as_str().into());
            }
            inputs.insert(name, id);
        }
        let mut files = BTreeMap::new();
        for (name, mut from) in self.files {
            if let Some((id, artifact)) = from.split_once('/') {
                let id = full_id(client, id, "--file")?;
                from = format!("{id}/{artifact}");
                if depends_on.iter().all(|it| it.job() != id) {
                    depends_on.push(id.as_str().into());
                }
            }
            files.insert(name, from);
        }
        let attributes: BTreeMap<_, _> = self.attributes.into_iter().collect();
        Ok(NewJobBody {
            handler: self.name,
            params,
            queue: self.queue,
            priority: self.priority.map(i64::from),
            run_at: self.run_at,
            delay_seconds: self.delay,
            deadline: self.deadline,
            max_attempts: self.max_attempts.map(i64::from),
            timeout_seconds: self.timeout,
            retention_seconds: self.retention,
            retention_discarded_seconds: self.retention_discarded,
            unique_key,
            unique,
            depends_on,
            inputs,
            files,
            batch: None,
            notify: self.notify.body(),
            trace_context: None,
            attributes: (!attributes.is_empty()).then(|| Pairs(attributes.into_iter().collect())),
        })
    }
}

/// Completes an id from its `prefix`; the host checks complete ids.
fn full_id(client: &Client, prefix: &str, option: &str) -> Result<String, CliError> {
    if prefix.len() >= ID_CHARS {
        return Ok(prefix.to_owned());
    }
    let doing = format!("find job {} of {option}", plain::line(prefix));
    Ok(fetch(client, &doing, prefix)?.view.0.id)
}

/// Reads `NAME=ID`.
fn parse_input(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, id)) if !name.is_empty() => Ok((name.to_owned(), parse_id(id)?)),
        _ => Err("write NAME=ID, such as rows=01990f3c".to_owned()),
    }
}

/// Reads `NAME=UPLOAD` or `NAME=ID/ARTIFACT`.
fn parse_file(text: &str) -> Result<(String, String), String> {
    let is_whole = |(name, from): &(&str, &str)| !name.is_empty() && !from.is_empty();
    match text.split_once('=').filter(is_whole) {
        Some((name, from)) => Ok((name.to_owned(), from.to_owned())),
        None => Err(
            "write NAME=UPLOAD or NAME=ID/ARTIFACT, such as report=01990f3c/report.pdf".to_owned(),
        ),
    }
}

/// Reads `ID` or `ID:WHEN`.
fn parse_prerequisite(text: &str) -> Result<DependsOnBody, String> {
    let (id, when) = match text.split_once(':') {
        Some((id, word)) => (id, choice(word)?),
        None => (text, When::Completed),
    };
    Ok(DependsOnBody::new(parse_id(id)?, when))
}
