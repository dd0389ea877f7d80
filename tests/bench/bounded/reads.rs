//! Reads of everything that is stored.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpStream;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use host_tests::server::host;

use super::concurrently;
use crate::Stage;

/// How many counts and listeners there are.
const COUNTS: usize = 8;
const LISTENERS: usize = 8;

/// How many changes a host keeps.
const CHANGES_KEPT: usize = 100_000;

/// Counts that examine all jobs and find none, and as many whose clients do not wait.
pub(super) fn counts(stage: &Stage, _: usize) -> Result<()> {
    let path = "/api/v1/jobs/count?attribute=team%3Dnone";
    concurrently(COUNTS, || {
        drop(send_get(stage, path, "")?);
        let client = stage.server.client();
        let mut cursor = String::new();
        loop {
            let answer = client.get(&format!("{path}{cursor}"))?;
            ensure!(answer.status == 200, "cannot count: {}", answer.body);
            match answer.body["next_cursor"].as_str() {
                Some(next) => cursor = format!("&cursor={next}"),
                None => return Ok(()),
            }
        }
    })
}

/// Sends a request and returns its connection, before the answer.
fn send_get(stage: &Stage, path: &str, headers: &str) -> Result<TcpStream> {
    let address = stage.server.address();
    let mut stream = TcpStream::connect(address)?;
    write!(
        stream,
        "GET {path} HTTP/1.0\r\nhost: {address}\r\n{headers}\r\n"
    )?;
    Ok(stream)
}

/// Listeners that read all kept changes.
pub(super) fn listeners(stage: &Stage, size: usize) -> Result<()> {
    let expected = size.min(CHANGES_KEPT);
    concurrently(LISTENERS, || {
        let events = send_get(stage, "/api/v1/events", "last-event-id: 1\r\n")?;
        let lines = BufReader::new(events).lines();
        let ids = lines.filter(|line| line.as_ref().is_ok_and(|it| it.starts_with("id:")));
        let read = ids.take(expected).count();
        ensure!(read == expected, "the stream ended after {read} events");
        Ok(())
    })
}

pub(super) fn check(stage: &Stage, _: usize) -> Result<()> {
    let mut check = Command::new(host());
    check.args(["store", "check", "-q"]);
    match stage.env.first() {
        Some((_, url)) => check.args(["--store", url]),
        None => check.arg("--data").arg(stage.folder.path().join("data")),
    };
    let checked = check.output().context("cannot start a check")?;
    let message = String::from_utf8_lossy(&checked.stderr);
    ensure!(checked.status.success(), "the check failed: {message}");
    Ok(())
}
