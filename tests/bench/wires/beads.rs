//! A host as the orchestrator of beads workers, which do nothing between TASK and DONE: each task is accepted, handed out
//! and ended on disk.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde::Deserialize;
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

use super::IN_FLIGHT;
use crate::Stage;
use crate::load::{arrays, run_handler};

const HANDLER: &str = "beads#noop";

/// How many jobs are in flight: enough that work always waits for each worker.
const JOBS: usize = 2_560;

/// A host with a socket for workers.
pub(super) struct Beads {
    pub(super) stage: Stage,
    socket: PathBuf,
    // In the folder for temporary files, because the path of a socket must be short.
    _folder: TempDir,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    issue_id: Option<&'a str>,
}

impl Beads {
    pub(super) fn start() -> Result<Self> {
        let folder = TempDir::new().context("cannot make a temporary folder")?;
        let socket = folder.path().join("beads.sock");
        let config = format!(
            "[protocol.beads]\nsocket = {:?}\n",
            socket.display().to_string()
        );
        Ok(Self {
            stage: Stage::configured(&["basics"], &config)?,
            socket,
            _folder: folder,
        })
    }

    /// Returns tasks per second.
    pub(super) async fn rate(&self, span: Duration) -> Result<f64> {
        let mut workers = JoinSet::new();
        for number in 1..=IN_FLIGHT {
            let stream = UnixStream::connect(&self.socket).await;
            workers.spawn(work(stream.context("cannot connect a worker")?, number));
        }
        tokio::select! {
            sample = run_handler(HANDLER, self.stage.address(), arrays(JOBS), span) => {
                Ok(sample?.jobs_per_second)
            }
            Some(end) = workers.join_next() => {
                end.context("a worker panicked")??;
                bail!("a worker has ended by itself")
            }
        }
    }
}

/// Does one task after the other. Ends only with an error.
async fn work(mut stream: UnixStream, number: usize) -> Result<()> {
    let from = format!(r#""worker_id":"W{number}","timestamp":1733423456.789"#);
    let ready = format!("{{\"type\":\"READY\",{from}}}\n");
    stream.write_all(ready.as_bytes()).await?;
    let mut stream = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        stream.read_line(&mut line).await?;
        let message: Message<'_> =
            serde_json::from_str(&line).with_context(|| format!("not a message: {line}"))?;
        let answer = match (message.kind, message.issue_id) {
            ("TASK", Some(id)) => {
                let done = r#""duration_ms":0}"#;
                format!("{{\"type\":\"DONE\",{from},\"issue_id\":\"{id}\",{done}\n{ready}")
            }
            ("WAIT", _) => ready.clone(),
            (kind, _) => bail!("unexpected {kind}"),
        };
        stream.write_all(answer.as_bytes()).await?;
    }
}
