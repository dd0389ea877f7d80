//! Arco's contract at both ends: `host serve` keeps each task, dispatches it to `host worker arco` over loopback, and
//! commits the results of its callbacks.

use std::time::Duration;

use anyhow::{Context, Result};
use host_tests::{ArcoWorker, ports};
use tempfile::TempDir;

use crate::load::{run_handler, single};
use crate::{Stage, build_folder};

const SECRET: &str = "secret-of-the-bench";
const IN_FLIGHT: usize = 256;

/// A control plane and its worker.
pub(super) struct Arco {
    pub(super) stage: Stage,
    worker: ArcoWorker,
    _folder: TempDir,
}

impl Arco {
    pub(super) fn start() -> Result<Self> {
        let folder = TempDir::new_in(build_folder()?).context("cannot make a folder")?;
        let secret = folder.path().join("secret");
        std::fs::write(&secret, SECRET).context("cannot write a secret")?;
        let port = ports::free(1);
        let config = format!(
            "[protocol.arco.workers.spark]\nurl = \"http://127.0.0.1:{port}\"\n\
             max_in_flight = {IN_FLIGHT}\nsecret_file = {:?}\n",
            secret.display().to_string()
        );
        let stage = Stage::configured(&["basics"], &config)?;
        let origin = format!("http://{}", stage.address());
        let concurrency = ["--concurrency".to_owned(), IN_FLIGHT.to_string()];
        let worker = ArcoWorker::start_with(folder.path(), port, SECRET, &origin, &concurrency);
        Ok(Self {
            stage,
            worker,
            _folder: folder,
        })
    }

    /// Returns tasks per second.
    pub(super) async fn rate(&self, span: Duration) -> Result<f64> {
        let shape = single(IN_FLIGHT);
        let sample = run_handler("spark#noop", self.stage.address(), shape, span).await?;
        Ok(sample.jobs_per_second)
    }

    pub(super) fn stop(self) -> Result<()> {
        self.worker.stop();
        self.stage.stop()
    }
}
