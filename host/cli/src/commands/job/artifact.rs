//! `host job artifact`: saves a file that a job has produced.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::PathBuf;

use clap::Args;
use host_console::error::{CliError, Exit, cannot_find};
use host_console::options::Remote;
use host_console::plain;

use super::parse_id;
use crate::complete;

/// Save a file that a job has produced.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  host job artifact 01990f3c report.pdf -O report.pdf
  host job artifact 01990f3c rows.csv | head")]
pub(super) struct Artifact {
    /// The job's id or a prefix of it
    #[arg(value_parser = parse_id)]
    #[arg(add = complete::jobs())]
    id: String,
    /// The name of the artifact; `host job show ID` lists them
    name: String,
    /// Where to save it, in place of any file there; without it, it is printed
    #[arg(short = 'O', long, value_name = "FILE")]
    output_file: Option<PathBuf>,
    #[command(flatten)]
    remote: Remote,
}

impl Artifact {
    pub(super) fn run(self) -> Result<(), CliError> {
        let (client, _) = self.remote.open()?;
        let (id, name) = (plain::line(&self.id), plain::line(&self.name));
        let doing = format!("get the artifact {name} of job {id}");
        let next = format!("`host job show {id}` lists the artifacts of the job");
        let mut content = client
            .artifact(&self.id, &self.name)
            .map_err(cannot_find(&doing, &next))?;
        let failed = |error: io::Error| CliError::new(Exit::Failed, doing.clone(), error);
        let Some(path) = self.output_file else {
            let mut stdout = io::stdout().lock();
            let printed = io::copy(&mut content, &mut stdout).and_then(|_| stdout.flush());
            return printed.map_err(|error| CliError::stdout(&error));
        };
        let mut file = File::create(&path).map_err(failed)?;
        io::copy(&mut content, &mut file).map_err(failed)?;
        file.sync_all().map_err(failed)
    }
}
