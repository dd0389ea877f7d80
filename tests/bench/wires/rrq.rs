//! Bare round trips of frames on one connection: our worker and the example runner of RRQ, driven by the same client in
//! turns.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::{Worker, eventually, peers, ports, rrq};
use serde::Deserialize;
use serde_json::json;
use tempfile::TempDir;

use crate::Args;
use crate::numbers::count;
use crate::report::{Report, Target};

/// The names of our no-op handler and theirs.
const OURS: &str = "noop";
const THEIRS: &str = "echo";

/// How many requests are in flight, and the target for ours to theirs.
const DEPTHS: [(usize, Option<f64>); 3] = [(1, Some(0.25)), (8, Some(0.5)), (64, None)];

/// The placeholder for ids in requests, of the same length.
const ID: &str = "000000000000";

/// The time limit in each request, which none comes near.
const BUDGET_MS: u64 = 3_600_000;

const PATIENCE: Duration = Duration::from_secs(30);
const READ_BYTES: usize = 64 << 10;

/// A connection that keeps a number of requests in flight.
struct Client {
    stream: TcpStream,
    request: Vec<u8>,
    id_offsets: Vec<usize>,
    ids: u64,
    out: Vec<u8>,
    read: Vec<u8>,
    read_bytes: usize,
}

#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    payload: Response<'a>,
}

#[derive(Deserialize)]
struct Response<'a> {
    status: &'a str,
    error: Option<RunnerError>,
}

#[derive(Deserialize)]
struct RunnerError {
    message: String,
}

/// RRQ's example runner. It is killed when dropped.
struct SocketRunner {
    child: Child,
    address: String,
}

impl SocketRunner {
    fn start() -> Result<Self> {
        let address = format!("127.0.0.1:{}", ports::free(1));
        let child = Command::new(peers::socket_runner())
            .args(["--tcp-socket", &address])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start socket_runner")?;
        let runner = Self { child, address };
        eventually("socket_runner to listen", PATIENCE, || {
            TcpStream::connect(&runner.address).ok()
        });
        Ok(runner)
    }
}

impl Drop for SocketRunner {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let folder = TempDir::new().context("cannot make a temporary folder")?;
    let worker = Worker::start(folder.path());
    let runner = SocketRunner::start()?;
    let mut ours = Client::open(worker.address(), OURS)?;
    let mut theirs = Client::open(&runner.address, THEIRS)?;
    for _ in args.rounds("rrq") {
        for (in_flight, _) in DEPTHS {
            let rows = rows(in_flight);
            for (client, row) in [&mut ours, &mut theirs].into_iter().zip(&rows) {
                let rate = tokio::task::block_in_place(|| client.rate(in_flight, args.span()))?;
                report.push(row, "jobs/s", rate);
            }
        }
    }
    for (in_flight, least) in DEPTHS {
        let rows = rows(in_flight);
        let name = format!("rrq, {in_flight} in flight: ours to theirs");
        report.ratio(&name, &rows[0], &rows[1], least.map(Target::AtLeast));
    }
    Ok(())
}

/// Returns the names of the rows for our worker and their runner.
fn rows(in_flight: usize) -> [String; 2] {
    ["host worker", "socket_runner"].map(|name| format!("rrq, {in_flight} in flight: {name}"))
}

impl Client {
    fn open(address: &str, function: &str) -> Result<Self> {
        let stream = TcpStream::connect(address)
            .with_context(|| format!("cannot connect to the runner at {address}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let whole = rrq::request(ID, function, &json!({"n": 12345}));
        let request = rrq::within_ms(whole, BUDGET_MS).to_string();
        let id_offsets = request.match_indices(ID).map(|(at, _)| at + 4).collect();
        Ok(Self {
            stream,
            request: rrq::frame(request.as_bytes()),
            id_offsets,
            ids: 0,
            out: Vec::new(),
            read: vec![0; READ_BYTES],
            read_bytes: 0,
        })
    }

    /// Keeps `in_flight` requests in flight for `span`. Returns successes per second.
    fn rate(&mut self, in_flight: usize, span: Duration) -> Result<f64> {
        let start = Instant::now();
        let (mut done, mut busy, mut missing) = (0, 0, 0);
        loop {
            if start.elapsed() < span {
                while missing < in_flight {
                    self.add_request();
                    missing += 1;
                }
                self.stream.write_all(&self.out)?;
                self.out.clear();
            }
            if missing == 0 {
                break;
            }
            let (succeeded, refused) = self.answers()?;
            done += succeeded;
            busy += refused;
            missing -= succeeded + refused;
        }
        if busy > 0 {
            eprintln!("{busy} of {} requests were answered busy", done + busy);
        }
        Ok(count(done) / start.elapsed().as_secs_f64())
    }

    fn add_request(&mut self) {
        self.ids += 1;
        let id = format!("{:0width$}", self.ids, width = ID.len());
        for at in &self.id_offsets {
            self.request[*at..*at + ID.len()].copy_from_slice(id.as_bytes());
        }
        self.out.extend_from_slice(&self.request);
    }

    /// Waits for some answers. Returns how many succeeded and how many were busy.
    fn answers(&mut self) -> Result<(usize, usize)> {
        let (mut succeeded, mut refused) = (0, 0);
        while succeeded + refused == 0 {
            let bytes = self.stream.read(&mut self.read[self.read_bytes..])?;
            ensure!(bytes > 0, "the runner closed the connection");
            self.read_bytes += bytes;
            let mut at = 0;
            while let Some(length) = self.read[at..self.read_bytes].first_chunk() {
                let end = at + 4 + u32::from_be_bytes(*length) as usize;
                if end > self.read_bytes {
                    ensure!(end - at <= READ_BYTES, "an answer of {} bytes", end - at);
                    break;
                }
                let message: Message<'_> = serde_json::from_slice(&self.read[at + 4..end])
                    .context("an answer does not match the document")?;
                match message.payload {
                    Response {
                        status: "success", ..
                    } => succeeded += 1,
                    // Their runner answers before it counts a request as done.
                    Response {
                        error: Some(error), ..
                    } if error.message.starts_with("Runner busy") => refused += 1,
                    Response { status, error } => {
                        let message = error.map(|error| error.message).unwrap_or_default();
                        anyhow::bail!("a request ended as {status}: {message}");
                    }
                }
                at = end;
            }
            self.read.copy_within(at..self.read_bytes, 0);
            self.read_bytes -= at;
        }
        Ok((succeeded, refused))
    }
}
