//! A lean worker: one connection, one task at a time, nothing between TASK and DONE. It must cost less than
//! what it measures.

use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::JoinSet;

const LINE_BYTES_MAX: usize = 64 << 10;

pub(super) struct Worker {
    stream: UnixStream,
    ready: String,
    read: Vec<u8>,
    out: Vec<u8>,
}

/// A message from the orchestrator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Message {
    Task(String),
    Wait,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    issue_id: Option<&'a str>,
}

impl Worker {
    pub(super) async fn open(path: &Path, number: usize) -> Result<Self> {
        let stream = UnixStream::connect(path)
            .await
            .with_context(|| format!("cannot connect to {}", path.display()))?;
        Ok(Self {
            stream,
            ready: format!(
                "{{\"type\":\"READY\",\"worker_id\":\"W{number}\",\"timestamp\":1733423456.789}}\n"
            ),
            read: Vec::new(),
            out: Vec::new(),
        })
    }

    /// Reports that it is ready.
    pub(super) async fn ready(&mut self) -> Result<()> {
        self.out.extend_from_slice(self.ready.as_bytes());
        self.flush().await
    }

    /// Reports that a task is done.
    pub(super) async fn done(&mut self, issue_id: &str) -> Result<()> {
        self.add_done(issue_id);
        self.flush().await
    }

    /// Reports that a task is done and that it is ready again, in one write.
    pub(super) async fn done_and_ready(&mut self, issue_id: &str) -> Result<()> {
        self.add_done(issue_id);
        self.ready().await
    }

    fn add_done(&mut self, issue_id: &str) {
        let done = format!(
            "{{\"type\":\"DONE\",\"worker_id\":\"W1\",\"timestamp\":1733423456.789,\
             \"issue_id\":\"{issue_id}\",\"duration_ms\":0}}\n"
        );
        self.out.extend_from_slice(done.as_bytes());
    }

    async fn flush(&mut self) -> Result<()> {
        self.stream.write_all(&self.out).await?;
        self.out.clear();
        Ok(())
    }

    /// Waits for the next message.
    pub(super) async fn message(&mut self) -> Result<Message> {
        loop {
            if let Some(end) = self.read.iter().position(|byte| *byte == b'\n') {
                let message = parse(&self.read[..end])?;
                self.read.drain(..=end);
                return Ok(message);
            }
            ensure!(self.read.len() < LINE_BYTES_MAX, "a line is too long");
            let bytes = self.stream.read_buf(&mut self.read).await?;
            ensure!(bytes > 0, "the host closed a worker's connection");
        }
    }

    /// Waits for a task, asking again after each WAIT.
    pub(super) async fn task(&mut self) -> Result<String> {
        loop {
            match self.message().await? {
                Message::Task(issue_id) => return Ok(issue_id),
                Message::Wait => self.ready().await?,
            }
        }
    }

    /// Does one task after the other. Ends only with an error.
    async fn work(mut self) -> Result<()> {
        self.ready().await?;
        loop {
            let issue_id = self.task().await?;
            self.done_and_ready(&issue_id).await?;
        }
    }
}

fn parse(line: &[u8]) -> Result<Message> {
    let message: Line<'_> = serde_json::from_slice(line).context("a message is not valid JSON")?;
    match (message.kind, message.issue_id) {
        ("TASK", Some(issue_id)) => Ok(Message::Task(issue_id.to_owned())),
        ("WAIT", _) => Ok(Message::Wait),
        (kind, _) => bail!("unexpected {kind}"),
    }
}

/// Runs `count` workers while `load` runs.
pub(super) async fn beside<T>(
    path: &Path,
    count: usize,
    load: impl Future<Output = Result<T>>,
) -> Result<T> {
    let mut workers = JoinSet::new();
    for number in 1..=count {
        workers.spawn(Worker::open(path, number).await?.work());
    }
    tokio::select! {
        shown = load => shown,
        Some(ended) = workers.join_next() => {
            ended.context("a worker panicked")??;
            bail!("a worker has ended by itself")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Message, parse};

    #[test]
    fn messages_are_understood_and_others_are_errors() {
        let task = br#"{"type":"TASK","worker_id":"W1","timestamp":1.5,"issue_id":"a-1","priority":2,"title":"t"}"#;
        assert_eq!(parse(task).unwrap(), Message::Task("a-1".to_owned()));
        let wait = br#"{"type":"WAIT","worker_id":"W1","timestamp":1.5,"wait_seconds":30}"#;
        assert_eq!(parse(wait).unwrap(), Message::Wait);
        assert!(parse(br#"{"type":"SHUTDOWN","worker_id":"W1"}"#).is_err());
        assert!(parse(b"TASK").is_err());
    }
}
