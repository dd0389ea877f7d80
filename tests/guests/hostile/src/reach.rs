//! Handlers that try to read files, the environment and clocks, and return what they found.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::{Instant, SystemTime};

use guest_sdk::{Ctx, Error, handler};
use serde::Serialize;
use serde_json::Value;

const PATHS: &[&str] = &[
    "/",
    ".",
    "..",
    "../../../../etc/passwd",
    "/etc/passwd",
    "//etc//passwd",
    "/proc/self/environ",
    "/proc/self/root/etc/passwd",
    "/proc/self/fd/0",
    "/dev/mem",
    "/tmp",
    "/tmp/written-by-a-guest",
    "host.db",
    "nul\0byte",
];

/// How many steps of a clock are measured.
const STEPS: usize = 20;

/// Tries to connect to a port of this machine.
#[handler]
pub(crate) fn connect(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    std::net::TcpStream::connect("127.0.0.1:80")?;
    Ok(())
}

#[derive(Serialize)]
pub(crate) struct ReachFinding {
    /// Paths that could be opened, listed or written, and how.
    paths: BTreeMap<String, Vec<&'static str>>,
    env: Vec<String>,
    args: Vec<String>,
    directory: Option<String>,
    stdin_bytes: usize,
}

/// Tries files, environment, arguments and standard input, and returns what it could read.
#[handler]
pub(crate) fn read_files(_ctx: &Ctx, _params: Value) -> Result<ReachFinding, Error> {
    let mut paths: BTreeMap<String, Vec<&'static str>> = BTreeMap::new();
    let long = "x/".repeat(4_096);
    for path in PATHS.iter().copied().chain([long.as_str()]) {
        let mut done = Vec::new();
        if std::fs::read(path).is_ok() {
            done.push("read");
        }
        if std::fs::read_dir(path).is_ok() {
            done.push("listed");
        }
        if std::fs::metadata(path).is_ok() {
            done.push("looked at");
        }
        if std::fs::write(path, "x").is_ok() {
            done.push("written");
        }
        if !done.is_empty() {
            paths.insert(path.chars().take(100).collect(), done);
        }
    }
    let mut stdin = Vec::new();
    let _ = std::io::stdin().take(1 << 20).read_to_end(&mut stdin);
    let env = std::env::vars()
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    Ok(ReachFinding {
        paths,
        env,
        args: std::env::args().collect(),
        directory: std::env::current_dir()
            .ok()
            .map(|path| path.display().to_string()),
        stdin_bytes: stdin.len(),
    })
}

#[derive(Serialize)]
pub(crate) struct Steps {
    /// The smallest non-zero step of the monotonic clock.
    monotonic_ns: u64,
    /// The smallest non-zero step of the wall clock.
    wall_ns: u64,
}

/// Returns the smallest measured step of each clock.
#[handler]
pub(crate) fn clock(_ctx: &Ctx, _params: Value) -> Result<Steps, Error> {
    let (monotonic, wall) = (Instant::now, SystemTime::now);
    let start = monotonic();
    let since_start = || monotonic().duration_since(start).as_nanos();
    let since_epoch = || {
        let time = wall().duration_since(SystemTime::UNIX_EPOCH);
        time.map_or(0, |time| time.as_nanos())
    };
    Ok(Steps {
        monotonic_ns: smallest_step(since_start),
        wall_ns: smallest_step(since_epoch),
    })
}

fn smallest_step(clock: impl Fn() -> u128) -> u64 {
    let mut smallest = u128::MAX;
    let mut last = clock();
    for _ in 0..STEPS {
        let mut now = clock();
        while now == last {
            now = clock();
        }
        smallest = smallest.min(now.abs_diff(last));
        last = now;
    }
    u64::try_from(smallest).unwrap_or(u64::MAX)
}
