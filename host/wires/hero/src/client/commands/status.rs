//! `host hero status`: everything about one job on one screen.

use clap::Args;
use host_api::path;
use host_console::error::{CliError, cannot};
use host_console::options::Remote;
use host_console::output::put_section;
use host_console::table::Rows;
use host_console::{human, plain};
use host_core::time::Time;

use crate::client::api::path::JOB;
use crate::client::api::view::{HeroJobView, Rest};

/// How many of the jobs that it waits for are shown.
const OTHERS_MAX: usize = 10;

/// Show everything about a job.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host hero status 3f2b8a1c-7d5e-4c1a-9b1e-0a6f4d2c8e11
  host hero status 3f2b8a1c-7d5e-4c1a-9b1e-0a6f4d2c8e11 -o json | jq -r .output")]
pub(super) struct Status {
    /// The job's id
    id: String,
    #[command(flatten)]
    remote: Remote,
}

impl Status {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = format!("show job {}", plain::line(&self.id));
        let mut answer = client
            .get::<HeroJobView>(&path::with_name(JOB, &self.id))
            .map_err(cannot(&doing))?;
        let rest = answer.view.rest.take().unwrap_or_default();
        let view = &answer.view;
        output.print_item(&answer.json, &plain::line(&view.id), || {
            output.rows(header(view, &rest, answer.now))?;
            for (title, text) in [
                ("error", &rest.error),
                ("script", &rest.script),
                ("output", &rest.output),
            ] {
                if let Some(text) = text.as_deref().filter(|text| !text.is_empty()) {
                    put_section(title, &plain::block(text))?;
                }
            }
            Ok(())
        })?;
        output.hint(&next(view, &rest));
        Ok(())
    }
}

fn next(view: &HeroJobView, rest: &Rest) -> String {
    let id = plain::line(&view.id);
    match view.status.as_str() {
        "finished" if rest.log_path.is_none() => {
            format!("`host hero status {id} -o json` prints all of it as data")
        }
        "finished" => format!("`host hero logs {id}` prints the end of its log file"),
        "error" => format!("`host hero requeue {id}` runs it again"),
        _ if view.stale => {
            format!("its worker is silent; `host hero requeue {id}` queues it again")
        }
        _ if view
            .waits_for
            .iter()
            .any(|it| it.status.as_deref() == Some("missing")) =>
        {
            "it is queued when the jobs it waits for have finished; one of them does not exist yet: submit it \
             with its id"
                .to_owned()
        }
        _ => format!("`host hero wait {id}` waits for its end, `host hero stop {id}` stops it"),
    }
}

fn header(view: &HeroJobView, rest: &Rest, now: Option<Time>) -> Rows {
    let mut rows = Rows::pairs();
    let mut pair = |key: &str, value: &str| {
        if !value.is_empty() {
            rows.pair(key, &plain::line(value));
        }
    };
    let instant = |at: &Option<String>| match at {
        Some(at) => human::instant(now, at),
        None => String::new(),
    };
    pair("job", &view.id);
    pair("worker", &view.worker_id);
    pair("status", &view.status);
    if view.stale {
        pair(
            "",
            "its worker has been silent for longer than its time limit",
        );
    }
    pair("waits for", &view.waits_for(OTHERS_MAX));
    pair("runs", &view.runs());
    pair("caller", &view.caller_id);
    pair("context", &view.context_id);
    if view.concurrent == Some(false) {
        pair("", "no other job of its context runs beside it");
    }
    let limit = view.timeout_seconds.map(|limit| format!("{limit} s"));
    pair("time limit", &limit.unwrap_or_default());
    let retries = view.retries.filter(|retries| *retries > 0);
    pair(
        "retries",
        &retries.map(|it| it.to_string()).unwrap_or_default(),
    );
    pair("submitted", &instant(&view.created_at));
    pair("changed", &instant(&view.updated_at));
    pair("depends on", &rest.dependencies.join(" "));
    pair("dependents", &rest.dependents.join(" "));
    pair("log file", rest.log_path.as_deref().unwrap_or_default());
    for (name, value) in &rest.env_vars {
        pair("env", &format!("{name}={value}"));
    }
    for (field, bytes) in &rest.left_out {
        pair("left out", &format!("{field}: {}", human::bytes(*bytes)));
    }
    rows
}
