//! `host hero logs`: prints the end of the log file that a job names.

use clap::Args;
use host_api::client::with_query;
use host_api::path;
use host_console::error::{CliError, cannot};
use host_console::options::Remote;
use host_console::output::{Format, put_line};
use host_console::{human, plain};

use crate::client::api::logs::{LogView, TailQuery};
use crate::client::api::path::LOGS;

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
    /// At most this many bytes from the end, up to 16 MiB; 1 MiB if absent
    #[arg(long, value_name = "N", value_parser = human::whole::<u64>(0, u64::MAX))]
    tail_bytes: Option<u64>,
    #[command(flatten)]
    remote: Remote,
}

impl Logs {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, output) = self.remote.open()?;
        let doing = format!("read the log file of job {}", plain::line(&self.id));
        let tail_bytes = self.tail_bytes;
        let path = with_query(&path::with_name(LOGS, &self.id), &TailQuery { tail_bytes });
        let answer = path
            .and_then(|path| client.get::<LogView>(&path))
            .map_err(cannot(&doing))?;
        let log = &answer.view;
        match output.format() {
            Format::Json | Format::Jsonl => return output.json(&answer.json),
            Format::Name => return put_line(&plain::line(&log.log_path)),
            Format::Table => {}
        }
        if log.skipped_bytes > 0 {
            let size = human::bytes(log.skipped_bytes);
            output.note(&format!("the first {size} are left out"));
        }
        if log.text.is_empty() {
            output.hint("the log is empty");
            return Ok(());
        }
        put_line(&plain::block(log.text.trim_end_matches('\n')))
    }
}
