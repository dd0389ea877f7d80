//! A host as the orchestrator of beads workers on this machine: task throughput, how soon a ready worker gets
//! a task, and what idle workers cost.

mod handout;
mod idle;
mod tasks;
mod worker;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use tempfile::TempDir;

use crate::report::Report;
use crate::{Args, Part, Stage};

/// The jobs of all parts.
const HANDLER: &str = "beads#noop";

/// How long a READY stays unanswered while there is no task, in seconds.
const HOLD_SECONDS: u64 = 5;

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let host = Host::start()?;
    if args.wants(Part::Tasks) {
        tasks::measure(args, &host, report).await?;
    }
    if args.wants(Part::Handout) {
        handout::measure(args, &host, report).await?;
    }
    host.stop()?;
    if args.wants(Part::IdleWorkers) {
        idle::measure(report).await?;
    }
    Ok(())
}

/// A host with a socket for workers.
struct Host {
    stage: Stage,
    socket: PathBuf,
    // In the folder for temporary files, because the path of a socket must be short.
    _folder: TempDir,
}

impl Host {
    fn start() -> Result<Self> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let socket = folder.path().join("beads.sock");
        let config = folder.path().join("host.toml");
        std::fs::write(&config, settings(&socket)).context("cannot write the configuration")?;
        let args = vec!["--config".to_owned(), config.display().to_string()];
        Ok(Self {
            stage: Stage::with(&["basics"], args)?,
            socket,
            _folder: folder,
        })
    }

    fn address(&self) -> &str {
        self.stage.server.address()
    }

    fn stop(self) -> Result<()> {
        self.stage.stop()
    }
}

fn settings(socket: &Path) -> String {
    format!(
        "[protocol.beads]\nsocket = \"{}\"\nmax_workers = {}\nhold_seconds = {HOLD_SECONDS}\n",
        socket.display(),
        idle::WORKERS + idle::BUSY
    )
}
