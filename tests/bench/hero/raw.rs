//! Plain Redis clients: many connections in one thread, each with one request per round trip, like
//! `redis-benchmark`.

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::resp::{Pipe, Template, answer_bytes};
use crate::numbers::count;

/// The number of connections, the default of `redis-benchmark`.
pub(super) const CONNECTIONS: usize = 50;

/// Sends the commands of whole jobs for `span`, `commands[n]` on the `n`th connection. Returns jobs per
/// second.
pub(super) fn rate(port: u16, commands: &[Vec<Template>], span: Duration) -> Result<f64> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start a runtime")?;
    let work = async {
        let start = Instant::now();
        let mut clients = tokio::task::JoinSet::new();
        for (place, commands) in commands.iter().cloned().enumerate() {
            clients.spawn(client(port, place, commands, start + span));
        }
        let mut jobs = 0;
        while let Some(done) = clients.join_next().await {
            jobs += done??;
        }
        anyhow::Ok(count(jobs) / start.elapsed().as_secs_f64())
    };
    std::thread::scope(|scope| {
        let thread = scope.spawn(|| runtime.block_on(work));
        thread
            .join()
            .unwrap_or_else(|_| anyhow::bail!("a client has panicked"))
    })
}

/// Has `redis-benchmark` send each command separately, once per job. Returns the jobs per second if a job's
/// commands follow each other.
pub(super) fn program(port: u16, commands: &[Template], jobs: usize) -> Result<f64> {
    let mut seconds = 0.0;
    for command in commands {
        let output = Command::new("redis-benchmark")
            .args([
                "--csv",
                "-p",
                &port.to_string(),
                "-c",
                &CONNECTIONS.to_string(),
            ])
            .args(["-n", &jobs.to_string(), "-r", &jobs.to_string()])
            .args(command.for_program())
            .output()
            .context("redis-benchmark is missing: install redis-tools")?;
        let text = String::from_utf8_lossy(&output.stdout);
        seconds += 1.0
            / requests_per_second(&text)
                .with_context(|| format!("redis-benchmark printed {text:?}"))?;
    }
    Ok(1.0 / seconds)
}

/// Reads the requests per second: the second of eight columns, the first of which may hold anything.
fn requests_per_second(csv: &str) -> Option<f64> {
    let column = csv.lines().last()?.rsplit(',').nth(6)?;
    column.trim_matches('"').parse().ok()
}

/// Sends the commands of whole jobs for `span` on one connection, those of [`CONNECTIONS`] jobs at once.
/// Returns jobs per second.
pub(super) fn pipelined(port: u16, commands: &[Template], span: Duration) -> Result<f64> {
    let mut pipe = Pipe::open(port)?;
    let start = Instant::now();
    let mut jobs = 0;
    while start.elapsed() < span {
        pipe.send(commands, 1 + jobs..=jobs + CONNECTIONS)?;
        jobs += CONNECTIONS;
    }
    Ok(count(jobs) / start.elapsed().as_secs_f64())
}

async fn client(port: u16, place: usize, commands: Vec<Template>, end: Instant) -> Result<usize> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).await?;
    stream.set_nodelay(true)?;
    let (mut out, mut read) = (Vec::new(), Vec::with_capacity(16 << 10));
    let mut jobs = 0;
    while Instant::now() < end {
        for command in &commands {
            out.clear();
            command.write(1 + place + jobs * CONNECTIONS, &mut out);
            stream.write_all(&out).await?;
            read.clear();
            while answer_bytes(&read)?.is_none() {
                let bytes = stream.read_buf(&mut read).await?;
                ensure!(bytes > 0, "Redis closed the connection");
            }
        }
        jobs += 1;
    }
    Ok(jobs)
}

#[cfg(test)]
mod tests {
    use super::requests_per_second;

    #[test]
    fn what_the_program_says_is_read() {
        let csv = "\"test\",\"rps\",\"a\",\"b\",\"c\",\"d\",\"e\",\"f\"\n\
                   \"SET a,b\",\"62761.51\",\"0.5\",\"0.1\",\"0.5\",\"0.7\",\"0.9\",\"1.0\"\n";
        assert_eq!(requests_per_second(csv), Some(62_761.51));
        assert_eq!(requests_per_second("Could not connect"), None);
    }
}
