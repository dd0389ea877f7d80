//! How soon a job starts on an idle host, and how soon a cancelled job without grace stops: until its end is
//! on disk and reported.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use crate::Args;
use crate::events::{Events, Moment};
use crate::http::Connection;
use crate::numbers::ms;
use crate::report::Report;

const QUEUE: &str = "latency";

/// How many jobs are started one by one for the pickup latency.
const PICKUPS: usize = 200;

/// How long the host idles before each job.
const PAUSE: Duration = Duration::from_millis(20);

/// Cancelled jobs: handler, name in the report, the time until the handler is at work, and the targets
/// for median and p99.
pub(crate) struct Case {
    handler: &'static str,
    pub(crate) name: &'static str,
    settle: Duration,
    most_ms: [Option<f64>; 2],
}

/// A loop that makes no host calls.
pub(crate) const LOOP: Case = Case {
    handler: "spin",
    name: "hard cancel, CPU loop",
    settle: Duration::from_millis(10),
    most_ms: [Some(2.0), Some(20.0)],
};

const CASES: [Case; 3] = [
    LOOP,
    Case {
        handler: "sleep_forever",
        name: "hard cancel, blocked host call",
        settle: Duration::from_millis(10),
        most_ms: [Some(2.0), Some(20.0)],
    },
    Case {
        handler: "memcpy_loop",
        name: "hard cancel, 64 MiB copies",
        settle: Duration::from_millis(200),
        most_ms: [None, Some(250.0)],
    },
];

/// Measures from the request to the start event.
pub(crate) async fn pickup(args: &Args, address: &str, report: &mut Report) -> Result<()> {
    eprintln!("pickup on an idle host");
    let events = Events::listen(address, QUEUE, true).await?;
    let mut connection = Connection::open(address).await?;
    let job = format!(r#"{{"handler":"noop","queue":"{QUEUE}"}}"#);
    let mut times = Vec::new();
    for _ in 0..PICKUPS.min(args.cancels) {
        tokio::time::sleep(PAUSE).await;
        let start = Instant::now();
        let id = connection.enqueue(job.as_bytes()).await?;
        let started = events.when(id, Moment::Started).await?;
        times.push(ms(started.saturating_duration_since(start)));
        events.when(id, Moment::Ended).await?;
    }
    report.times("pickup on an idle host", &times, [None, None]);
    Ok(())
}

/// Measures from the cancel to the end event.
pub(crate) async fn cancels(args: &Args, address: &str, report: &mut Report) -> Result<()> {
    for case in CASES {
        eprintln!("{}, {} times", case.name, args.cancels);
        measure_case(args, address, &case, case.name, report).await?;
    }
    Ok(())
}

/// Measures one case, and reports it by this name.
pub(crate) async fn measure_case(
    args: &Args,
    address: &str,
    case: &Case,
    name: &str,
    report: &mut Report,
) -> Result<()> {
    let events = Events::listen(address, QUEUE, true).await?;
    let mut connection = Connection::open(address).await?;
    let mut times = Vec::with_capacity(args.cancels);
    for _ in 0..args.cancels {
        times.push(cancel(&mut connection, &events, case).await?);
    }
    report.times(name, &times, case.most_ms);
    Ok(())
}

async fn cancel(connection: &mut Connection, events: &Events, case: &Case) -> Result<f64> {
    let job = format!(
        r#"{{"handler":"{}","queue":"{QUEUE}","max_attempts":1,"timeout_seconds":60}}"#,
        case.handler
    );
    let id = connection.enqueue(job.as_bytes()).await?;
    events.when(id, Moment::Started).await?;
    tokio::time::sleep(case.settle).await;
    let start = Instant::now();
    let path = format!("/api/v1/jobs/{id}/cancel");
    let (status, body) = connection.post(&path, br#"{"grace_seconds":0}"#).await?;
    ensure!(
        status == 200,
        "a cancel is refused: {}",
        String::from_utf8_lossy(body)
    );
    let ended = events.when(id, Moment::Ended).await?;
    Ok(ms(ended.saturating_duration_since(start)))
}
