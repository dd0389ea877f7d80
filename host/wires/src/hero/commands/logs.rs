//! `host hero logs`: prints the end of the log file that a job names.

use std::time::Duration;

use clap::Args;
use host_console::client::{query, segment};
use host_console::error::CliError;
use host_console::options::Remote;
use host_console::output::{Format, put_line};
use host_console::{human, plain};
use serde::Deserialize;

/// Print the end of a job's log file.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host hero logs 3f2b8a1c-7d5e-4c1a-9b1e-0a6f4d2c8e11
  host hero logs 3f2b8a1c-7d5e-4c1a-9b1e-0a6f4d2c8e11 --tail-bytes 4096

The file is read on the host, below its folder protocol.hero.log_dir.")]
pub(super) struct Logs {
    /// The job's id
    id: String,
    /// At most so many bytes from the end, up to 16 MiB; 1 MiB if absent
    #[arg(long, value_name = "N", value_parser = human::whole::<u64>(0, u64::MAX))]
    tail_bytes: Option<u64>,
    #[command(flatten)]
    remote: Remote,
}

#[derive(Deserialize)]
struct Tail {
    #[serde(default)]
    log_path: String,
    #[serde(default)]
    skipped_bytes: u64,
    text: String,
}

impl Logs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = format!("read the log file of job {}", plain::line(&self.id));
        let tail = query(&[("tail_bytes", self.tail_bytes.map(|bytes| bytes.to_string()))]);
        let path = format!("/api/v1/hero/jobs/{}/logs{tail}", segment(&self.id));
        let answer = client.get(&doing, &path, Duration::ZERO)?;
        let log: Tail = answer.read(&doing)?;
        match output.format() {
            Format::Json | Format::Jsonl => return output.json(&answer.body),
            Format::Name => return put_line(&plain::line(&log.log_path)),
            Format::Table => {}
        }
        if log.skipped_bytes > 0 {
            let size = human::bytes(log.skipped_bytes);
            output.note(&format!("{size} before this are left out"));
        }
        if log.text.is_empty() {
            output.hint("nothing is logged so far");
            return Ok(());
        }
        put_line(&plain::block(log.text.trim_end_matches('\n')))
    }
}
