//! JSON on its way through the host: every number arrives digit by digit as it came, or its document is refused in our words.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};

use host_core::json::JsonText;
use host_tests::delta::worker_command;
use host_tests::pool::{Pool, workers};
use host_tests::server::host;
use host_tests::worker::cache;
use host_tests::{ArcoWorker, Client, secrets};
use proptest::strategy::{Strategy as _, ValueTree as _};
use proptest::test_runner::TestRunner;
use serde_json::value::RawValue;
use serde_json::{Value, json};
use tempfile::TempDir;

use crate::fixture::deploy;

/// How many random documents take each path.
const DOCUMENTS: usize = 24;

/// What became of a document.
#[derive(Debug)]
enum Passed {
    Through(String),
    Refused(String),
}

/// How a document is used, which says what is refused.
#[derive(Clone, Copy)]
enum Use {
    /// Numbers that handlers would round are refused.
    Params,
    /// Numbers beyond a double and half characters are refused.
    Result,
}

impl Use {
    fn refuses(self, document: &str) -> bool {
        let text = JsonText(document.to_owned());
        text.flaw().is_some() || matches!(self, Self::Params) && text.rounded_number().is_some()
    }
}

type Send = fn(&Client, &str) -> Passed;

const PATHS: [(&str, Use, Send); 10] = [
    ("the params of a job", Use::Params, |client, document| {
        run(client, "verbatim_result", document).map("params")
    }),
    (
        "params that a handler returns",
        Use::Params,
        |client, document| run(client, "verbatim_result", document).map("result"),
    ),
    ("the result of a job", Use::Result, |client, document| {
        run(client, "text_result", &text(document)).map("result")
    }),
    ("the result of a prerequisite", Use::Result, input),
    (
        "a line of an import, and a job as a command shows it",
        Use::Params,
        import,
    ),
    ("the job of a batch", Use::Params, batch),
    ("the job of a schedule", Use::Params, schedule),
    ("a runner of RRQ", Use::Result, |client, document| {
        run(client, "own#text_result", &text(document)).map("result")
    }),
    ("a runner of Delta", Use::Result, delta),
    ("a worker of Arco", Use::Result, |client, document| {
        run(client, "spark#text_result", &text(document)).map("result/output")
    }),
];

#[test]
fn every_number_arrives_digit_by_digit_or_is_refused() {
    let (host, worker) = start();
    let client = host.client();
    host.loaded();
    deploy(&client, "hostile");
    let documents = documents();
    assert!(documents.iter().any(|it| Use::Params.refuses(it)));
    assert!(!documents.iter().all(|it| Use::Params.refuses(it)));
    let mut breaches = Vec::new();
    for (path, use_of_it, send) in PATHS {
        for document in &documents {
            let is_refused = use_of_it.refuses(document);
            let passed = match send(&client, document) {
                Passed::Through(text) if text == *document && !is_refused => continue,
                Passed::Refused(why) if is_refused && is_worded(&why) => continue,
                passed => passed,
            };
            breaches.push(format!("{path}: {document}: {passed:?}"));
        }
    }
    assert!(breaches.is_empty(), "{}", breaches.join("\n"));
    assert_eq!(worker.stop().0, Some(0));
}

/// Returns whether a refusal says what is wrong with a document.
fn is_worded(why: &str) -> bool {
    [
        "would round",
        "would lose the sign",
        "lone surrogate",
        "beyond the range",
        "number too large",
    ]
    .iter()
    .any(|it| why.contains(it))
}

/// Starts a host with a pool of RRQ, one of Delta and a worker of Arco. All of them have the handlers of `hostile`.
fn start() -> (Pool, ArcoWorker) {
    let folder = TempDir::new().unwrap();
    let secret = folder.path().join("secret");
    std::fs::write(&secret, secrets::ARCO_SECRET).unwrap();
    let port = host_tests::ports::free(1);
    let command = worker_command();
    let rest = format!(
        "[protocol.delta.runners.ci]\ncmd = {command:?}\npool_size = 1\nenv = {{XDG_CACHE_HOME = {:?}}}\n\
         [protocol.arco.workers.spark]\nurl = \"http://127.0.0.1:{port}\"\nsecret_file = {:?}\n",
        cache().display().to_string(),
        secret.display().to_string(),
    );
    let host = Pool::start(&workers(1, 4), &rest);
    let origin = format!("http://{}", host.server().address());
    let worker = ArcoWorker::start(host.folder(), port, secrets::ARCO_SECRET, &origin);
    (host, worker)
}

/// Returns random documents, with numbers that programs round, and halves of characters in some.
fn documents() -> Vec<String> {
    let number = r"-?(0|[1-9][0-9]{0,25})(\.[0-9]{1,20})?([eE][+-]?[0-9]{1,3})?";
    let plain = r"-?[1-9][0-9]{0,5}(\.[1-9])?";
    let known = proptest::sample::select(vec![
        "12345678901234567.89".to_owned(),
        "9007199254740993.5".to_owned(),
        "1e-400".to_owned(),
        "1e400".to_owned(),
        "-0".to_owned(),
        "-0.0".to_owned(),
        "1.10".to_owned(),
        "1E5".to_owned(),
        "18446744073709551616".to_owned(),
        "7".repeat(400),
        format!("0.{}", "3".repeat(400)),
    ]);
    let words = proptest::sample::select(vec![
        "",
        "é",
        r"\ud83d\ude00",
        r"\ud800",
        r"\udc00x",
        r"\ud83d\n",
    ]);
    let documents = proptest::prop_oneof![
        (number, plain, "[a-z]{0,4}")
            .prop_map(|(a, b, text)| format!(r#"{{"a":[{a},{b}],"s":"{text}"}}"#)),
        (plain, plain, "[a-z]{0,4}")
            .prop_map(|(a, b, text)| format!(r#"{{"a":[{a},{b}],"s":"{text}"}}"#)),
        (known, plain).prop_map(|(a, b)| format!(r#"{{"z":{b},"a":{{"b":{a}}}}}"#)),
        (words, plain).prop_map(|(a, b)| format!(r#"{{"z":{b},"a":{{"{a}":"x{a}"}}}}"#)),
    ];
    let mut runner = TestRunner::deterministic();
    let mut next = || documents.new_tree(&mut runner).unwrap().current();
    (0..DOCUMENTS).map(|_| next()).collect()
}

/// Returns params with a document as a text.
fn text(document: &str) -> String {
    json!({"text": document}).to_string()
}

/// An answer of the API about a job that has ended, or a refusal.
struct JobAnswer(u16, String);

impl JobAnswer {
    /// Returns a part of the job.
    fn map(self, path: &str) -> Passed {
        let Self(status, answer) = self;
        let state: Option<String> =
            part(&answer, "state").and_then(|it| serde_json::from_str(&it).ok());
        match part(&answer, path) {
            Some(found) if status == 200 && state.as_deref() == Some("completed") => {
                Passed::Through(found)
            }
            _ => Passed::Refused(answer),
        }
    }
}

/// Returns the part of a document at a path, as it is written.
fn part(document: &str, path: &str) -> Option<String> {
    let mut at = document.to_owned();
    for step in path.split('/') {
        let members: BTreeMap<String, Box<RawValue>> = serde_json::from_str(&at).ok()?;
        let part = members.get(step)?.get().to_owned();
        at = part;
    }
    Some(at)
}

fn run(client: &Client, handler: &str, params: &str) -> JobAnswer {
    enqueue(
        client,
        &format!(r#"{{"handler":"{handler}","params":{params},"max_attempts":1}}"#),
    )
}

fn enqueue(client: &Client, job: &str) -> JobAnswer {
    let (status, answer) = client.call_text("POST", "/api/v1/jobs", Some(job)).unwrap();
    let id = (status == 201).then(|| part(&answer, "id")).flatten();
    match id {
        Some(id) => wait_for(client, &id),
        None => JobAnswer(status, answer),
    }
}

/// Waits for the end of a job, whose id is in quotes.
fn wait_for(client: &Client, id: &str) -> JobAnswer {
    let id: String = serde_json::from_str(id).unwrap();
    let path = format!("/api/v1/jobs/{id}/wait?timeout_seconds=60");
    let (status, answer) = client.call_text("GET", &path, None).unwrap();
    JobAnswer(status, answer)
}

fn input(client: &Client, document: &str) -> Passed {
    let JobAnswer(status, before) = run(client, "text_result", &text(document));
    let Some(id) = part(&before, "result").and_then(|_| part(&before, "id")) else {
        return Passed::Refused(before);
    };
    assert_eq!(status, 200, "{before}");
    let job = format!(
        r#"{{"handler":"verbatim_result","depends_on":[{id}],"inputs":{{"a":{id}}},"max_attempts":1}}"#
    );
    enqueue(client, &job).map("result/inputs/a")
}

fn import(client: &Client, document: &str) -> Passed {
    let line = format!(r#"{{"handler":"verbatim_result","params":{document},"max_attempts":1}}"#);
    let imported = command(client, &["job", "import", "-", "-o", "jsonl"], &line);
    let Some(id) = part(&imported, "id") else {
        return Passed::Refused(imported);
    };
    let JobAnswer(status, _) = wait_for(client, &id);
    let id: String = serde_json::from_str(&id).unwrap();
    JobAnswer(
        status,
        command(client, &["job", "show", &id, "-o", "jsonl"], ""),
    )
    .map("result")
}

/// Returns the output of a command.
fn command(client: &Client, arguments: &[&str], input: &str) -> String {
    let mut child = Command::new(host())
        .args(arguments)
        .args(["--server", client.base()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    child
        .stdin
        .take()
        .unwrap()
        .write_all(input.as_bytes())
        .unwrap();
    let output = child.wait_with_output().unwrap();
    String::from_utf8(output.stdout).unwrap()
}

fn batch(client: &Client, document: &str) -> Passed {
    let batch = format!(
        r#"{{"jobs":[{{"handler":"verbatim_result","params":{document},"max_attempts":1}}]}}"#
    );
    let (status, answer) = client
        .call_text("POST", "/api/v1/batches", Some(&batch))
        .unwrap();
    let made: Value = serde_json::from_str(&answer).unwrap();
    match made["jobs"][0]["id"].as_str() {
        Some(id) if status == 201 => wait_for(client, &json!(id).to_string()).map("result"),
        _ => Passed::Refused(answer),
    }
}

fn schedule(client: &Client, document: &str) -> Passed {
    let path = "/api/v1/schedules/numbers";
    let body = format!(
        r#"{{"when":{{"every":"1d"}},"job":{{"handler":"verbatim_result","params":{document}}}}}"#
    );
    let (status, answer) = client.call_text("PUT", path, Some(&body)).unwrap();
    if status != 200 {
        return Passed::Refused(answer);
    }
    let (_, shown) = client.call_text("GET", path, None).unwrap();
    let shown = part(&shown, "schedule/job/params").unwrap_or(shown);
    let (status, fired) = client
        .call_text("POST", &format!("{path}/trigger"), Some("{}"))
        .unwrap();
    assert_eq!((status, &*shown), (200, document), "{fired}");
    let fired: Value = serde_json::from_str(&fired).unwrap();
    wait_for(client, &fired["jobs"][0].to_string()).map("result")
}

fn delta(client: &Client, document: &str) -> Passed {
    let with = text(document);
    let steps = format!(r#"{{"steps":[{{"run":"wasm:text_result","with":{with}}}]}}"#);
    match run(client, "ci#build", &steps).map("result/summary") {
        Passed::Through(summary) => Passed::Through(serde_json::from_str(&summary).unwrap()),
        refused @ Passed::Refused(_) => refused,
    }
}
