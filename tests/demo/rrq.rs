//! The scene over RRQ: the host executes requests of an RRQ orchestrator, played by a client that speaks the
//! protocol.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use host_tests::{Client, eventually, rrq};
use serde_json::{Value, json};

use crate::Stage;
use crate::table::{Row, row};

/// How long the history of answered requests may take to appear.
const PATIENCE: Duration = Duration::from_mins(3);

/// The requests: their ids, handlers and what they show.
const REQUESTS: [(&str, &str, &str); 3] = [
    ("loop", "spin", "loops for ever, is cancelled"),
    ("page", "markdown", "CONTRIBUTING.md to HTML"),
    (
        "missing",
        "no-such-handler",
        "a handler that is not deployed",
    ),
];

/// Sends three requests on one connection and cancels the first once the others are answered.
pub(crate) fn requests(stage: &Stage) -> Result<Vec<Row>> {
    let path = stage.root.join("CONTRIBUTING.md");
    let markdown = std::fs::read_to_string(&path)
        .with_context(|| format!("cannot read {}", path.display()))?;
    let params = json!({"markdown": markdown});
    let mut connection = rrq::Connection::open(stage.server.rrq_address());
    let start = Instant::now();
    for (id, handler, _) in REQUESTS {
        connection.send(&rrq::request(id, handler, &params));
    }
    let mut answers = vec![connection.answer(), connection.answer()];
    let answered = start.elapsed();
    let start = Instant::now();
    connection.send(&rrq::cancel("loop", Some("loop"), true));
    answers.push(connection.answer());
    let stopped = start.elapsed();
    println!(
        "RRQ on {}: 3 requests on one connection, two answered in {:.1} ms, the endless one \
         {:.1} ms after its cancel frame",
        stage.server.rrq_address(),
        answered.as_secs_f64() * 1000.0,
        stopped.as_secs_f64() * 1000.0
    );
    expect(&answers, "page", |answer| answer["status"] == "success")?;
    expect(&answers, "missing", |answer| {
        answer["error"]["type"] == "handler_not_found"
    })?;
    expect(&answers, "loop", |answer| {
        answer["error"]["type"] == "cancelled"
    })?;
    let client = stage.client();
    let executed = REQUESTS.iter().filter(|(id, _, _)| *id != "missing");
    executed
        .map(|(id, _, what)| row(&client, &fetch_job(&client, id), what))
        .collect()
}

fn expect(answers: &[Value], id: &str, is_right: impl Fn(&Value) -> bool) -> Result<()> {
    let answer = answers
        .iter()
        .find(|answer| answer["request_id"] == id)
        .with_context(|| format!("no answer to {id}: {answers:?}"))?;
    ensure!(is_right(answer), "not the answer to {id}: {answer}");
    Ok(())
}

/// Returns the host's record of a request.
fn fetch_job(client: &Client, id: &str) -> Value {
    let job = format!("job-{id}");
    eventually("the history of what was answered", PATIENCE, || {
        let jobs = client.foreign_jobs();
        jobs.into_iter().find(|kept| kept["external_id"] == *job)
    })
}
