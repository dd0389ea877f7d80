//! `host job`.

use std::io::{BufRead as _, BufReader};
use std::os::unix::net::UnixListener;
use std::process::{Command, Stdio};

use crate::canned::{CannedHost, HANGS_UP, Transcript, answer_one, run, run_alone};

const A: &str = "01990f3c-1a2b-7000-8000-000000000001";

fn job(state: &str, more: &str) -> String {
    format!(
        r#"{{"id":"{A}","state":"{state}","handler":"echo","queue":"default","priority":5,"attempt":1,"max_attempts":5,"attempts_charged":1,"attempts_lost":0,"waited_ms":2000,"ran_ms":6,"wire":"http","enqueued_at":"2026-05-17T18:25:00.000Z"{more}}}"#
    )
}

const COMPLETED: &str = r#","finished_at":"2026-05-17T18:25:01.250Z","kept_until":"2026-05-24T18:25:01.250Z","params":{"z":1.10,"a":[]},"result":{"z":1.10,"a":[18446744073709551616]}"#;
const DISCARDED: &str = r#","finished_at":"2026-05-17T18:29:00.000Z","failure":{"kind":"user_error","message":"no \u001b[31mroom\nleft","category":"INFRASTRUCTURE","user_kind":"DiskFull","code":"E42","details":{"free":0},"stack":"at a\n  at b\u0007","retryable":false}"#;

#[test]
fn help() {
    let mut seen = Transcript::new("job_help");
    seen.add(&run_alone(&["job", "--help"]));
    for verb in [
        "enqueue", "ls", "show", "wait", "cancel", "retry", "logs", "artifact",
    ] {
        seen.add(&run_alone(&["job", verb, "--help"]));
    }
    seen.check();
}

#[test]
fn wrong_arguments_of_enqueue() {
    let mut seen = Transcript::new("job_wrong_arguments_of_enqueue");
    for arguments in [
        vec![],
        vec!["echo", "--priority", "10"],
        vec!["echo", "--delay", "5"],
        vec!["echo", "--run-at", "tomorrow"],
        vec!["echo", "--delay", "5s", "--run-at", "2026-05-17T18:30:00Z"],
        vec!["echo", "--attribute", "x"],
        vec!["echo", "--unique-key", "k", "--unique-scope", "ever"],
        vec!["echo", "--unique-scope", "active"],
        vec!["echo", "--params", "{a: 1}"],
        vec!["echo", "--params", "@/nowhere/p.json"],
    ] {
        let arguments = [vec!["job", "enqueue"], arguments].concat();
        seen.add(&run_alone(&arguments));
    }
    seen.check();
}

#[test]
fn enqueue_sends_what_it_was_given() {
    let mut seen = Transcript::new("job_enqueue_sends_what_it_was_given");
    let accepted = format!(r#"{{"id":"{A}","state":"available","existing":false}}"#);
    let known = format!(r#"{{"id":"{A}","state":"running","existing":true}}"#);
    let host = CannedHost::start(&[
        (201, &accepted),
        (200, &job("completed", COMPLETED)),
        (200, &known),
        (201, &accepted),
    ]);
    seen.add(&host.run(&["job", "enqueue", "echo"]));
    let all = [
        "job",
        "enqueue",
        "echo",
        "--params",
        r#"{"z": 1.10, "a": 18446744073709551616}"#,
        "--queue",
        "q",
        "--priority",
        "0",
        "--delay",
        "1m30s",
        "--deadline",
        "2026-05-17T20:30:00+02:00",
        "--max-attempts",
        "3",
        "--timeout",
        "250ms",
        "--retention",
        "30d",
        "--retention-discarded",
        "90d",
        "--unique-key",
        "k",
        "--depends-on",
        "01990f3c",
        "--depends-on",
        &format!("{A}:failed"),
        "--input",
        &format!("rows={A}"),
        "--attribute",
        "team=a=b",
    ];
    seen.add(&host.run(&all));
    seen.add(&host.run(&["job", "enqueue", "echo", "-o", "name"]));
    seen.check();
}

#[test]
fn params_from_standard_input() {
    let accepted = format!(r#"{{"id":"{A}","state":"available"}}"#);
    for standard_input in ["-", "@-"] {
        let host = CannedHost::start(&[(201, &accepted)]);
        let arguments = [
            "job",
            "enqueue",
            "echo",
            "--params",
            standard_input,
            "--server",
            &host.url(),
        ];
        let ran = run(&arguments, "{\"from\": \"stdin\"}\n", &[]);
        assert!(ran.contains("exit 0"), "{ran}");
        assert!(host.requests().contains(r#""params":{"from": "stdin"}"#));
    }
}

#[test]
fn a_unique_key_has_a_scope() {
    let mut seen = Transcript::new("job_a_unique_key_has_a_scope");
    let ended = format!(
        r#"{{"id":"{A}","state":"discarded","existing":true,"existing_params_differ":true}}"#
    );
    let host = CannedHost::start(&[(200, &ended), (200, &ended)]);
    let keyed = [
        "job",
        "enqueue",
        "echo",
        "--unique-key",
        "k",
        "--unique-scope",
    ];
    for scope in ["retained", "1h"] {
        seen.add(&host.run(&[keyed.as_slice(), &[scope]].concat()));
    }
    seen.check();
}

#[test]
fn enqueue_and_wait() {
    let mut seen = Transcript::new("job_enqueue_and_wait");
    let accepted = format!(r#"{{"id":"{A}","state":"available","existing":false}}"#);
    let running = job("running", "");
    let completed = job("completed", COMPLETED);
    let host = CannedHost::start(&[
        (201, &accepted),
        (200, &running),
        (200, &completed),
        (201, &accepted),
        (200, &completed),
    ]);
    seen.add(&host.run(&["job", "enqueue", "echo", "--wait"]));
    let arguments = ["job", "enqueue", "echo", "--wait", "-o", "json"];
    seen.add(&host.run(&arguments));
    seen.check();
}

#[test]
fn a_refused_enqueue() {
    let mut seen = Transcript::new("job_a_refused_enqueue");
    let problem = r#"{"title":"Unprocessable","detail":"no handler is named ehco; echo is","code":"handler_not_found"}"#;
    let host = CannedHost::start(&[(422, problem)]);
    seen.add(&host.run(&["job", "enqueue", "ehco"]));
    seen.check();
}

#[test]
fn list() {
    let mut seen = Transcript::new("job_list");
    let other = |id: &str, state: &str, more: &str| {
        job(state, more).replace(A, &format!("01990f3c-1a2b-7000-8000-00000000000{id}"))
    };
    let items = [
        job(
            "running",
            r#","progress":{"percent":41.6,"message":"page \u001b[2J3"}"#,
        ),
        other(
            "2",
            "running",
            r#","cancel_requested_at":"2026-05-17T18:29:58Z""#,
        ),
        job("scheduled", r#","run_at":"2026-05-17T20:30:00Z""#).replace("1a2b", "1a2c"),
        job("retryable", r#","run_at":"2026-05-17T18:29:59Z""#).replace("1a2b", "1a2d"),
        job("completed", COMPLETED).replace("1a2b", "1a2e"),
        job("discarded", DISCARDED).replace("1a2b", "1a2f"),
        job("completed", COMPLETED)
            .replace("1a2b", "1a30")
            .replace(r#""attempt":1"#, r#""attempt":4"#)
            .replace(r#""attempts_lost":0"#, r#""attempts_lost":1"#),
        job("available", "")
            .replace("1a2b", "1a31")
            .replace(r#""attempt":1"#, r#""attempt":0"#)
            .replace(r#""attempts_charged":1"#, r#""attempts_charged":0"#),
    ];
    let page = format!(r#"{{"items":[{}],"next_cursor":"99"}}"#, items.join(","));
    let host = CannedHost::start(&[(200, &page), (200, &page), (200, &page)]);
    seen.add(&host.run(&["job", "ls", "--limit", "8"]));
    let arguments = [
        "job",
        "ls",
        "--limit",
        "1",
        "--state",
        "running",
        "--queue",
        "a b",
        "--handler",
        "e/f",
        "-o",
        "name",
    ];
    seen.add(&host.run(&arguments));
    seen.add(&host.run(&["job", "ls", "--limit", "1", "-o", "json"]));
    seen.check();
}

#[test]
fn a_list_of_several_pages_and_an_empty_one() {
    let mut seen = Transcript::new("job_a_list_of_several_pages_and_an_empty_one");
    let item = job("available", "");
    let first = format!(r#"{{"items":[{item}],"next_cursor":"c/1"}}"#);
    let last = format!(r#"{{"items":[{item}],"next_cursor":null}}"#);
    let empty = r#"{"items":[],"next_cursor":null}"#;
    let host = CannedHost::start(&[(200, &first), (200, &last), (200, empty), (200, empty)]);
    seen.add(&host.run(&["job", "ls", "--limit", "3000"]));
    seen.add(&host.run(&["job", "ls"]));
    seen.add(&host.run(&["job", "ls", "--failure", "timed_oot"]));
    seen.check();
}

#[test]
fn a_list_of_jobs_at_several_nodes() {
    let mut seen = Transcript::new("job_a_list_of_jobs_at_several_nodes");
    let node = r#","node":{"id":"0199a0b0-0000-7000-8000-00000000000a","name":"db-1"}"#;
    let (running, waiting) = (job("running", node), job("available", ""));
    let page = format!(r#"{{"items":[{running},{waiting}],"next_cursor":null}}"#);
    let host = CannedHost::start(&[(200, &page)]);
    seen.add(&host.run(&["job", "ls"]));
    seen.check();
}

#[test]
fn show() {
    let mut seen = Transcript::new("job_show");
    let attempts = r#"{"items":[{"number":1,"executor":"cell-0","started_at":"2026-05-17T18:25:00.100Z","finished_at":"2026-05-17T18:25:01.250Z","outcome":"failed","component":"basics","revision":3,"failure":{"kind":"user_error","message":"x"},"fuel":25277,"cpu_ms":0.75,"peak_memory_bytes":1153434,"worker":{"name":"w-1\u001b[1m","ended_at":"2026-05-17T18:25:01.200Z","read_bytes":17,"written_bytes":2048},"requests":{"first":[{"at_ms":12,"method":"POST","origin":"https://api.example.com","path_pattern":"/v1/*","status":201,"sent_bytes":17,"received_bytes":2048,"duration_ms":81.25},{"at_ms":95,"method":"GET","origin":"http://a\u001b[1m","error":"not_granted","sent_bytes":0,"received_bytes":0,"duration_ms":0.1},{"at_ms":1000,"error":"invalid_request","sent_bytes":0,"received_bytes":0,"duration_ms":0.1}],"total":1200,"failed":2,"sent_bytes":17,"received_bytes":4096}}]}"#;
    let more = r#","deadline":"2026-05-17T19:30:00Z","unique_key":"k","depends_on":["x",{"job":"y","when":"failed"}],"inputs":{"rows":"x"},"notify":[{"url":"https://hooks.example.com/paid","secret":"hooks","events":["job.completed","job.discarded"]}],"attributes":{"team":"a\u001b[1m"},"external_id":"e""#;
    let discarded = job("discarded", &format!("{DISCARDED}{more}"));
    let running = job(
        "running",
        r#","progress":{"percent":null,"message":"busy"},"node":{"id":"0199a0b0-0000-7000-8000-00000000000a","name":"db-1"}"#,
    );
    let none = r#"{"items":[]}"#;
    let host = CannedHost::start(&[
        (200, &discarded),
        (200, attempts),
        (200, &running),
        (200, none),
        (200, &discarded),
        (200, attempts),
    ]);
    seen.add(&host.run(&["job", "show", "01990f3c"]));
    seen.add(&host.run(&["job", "show", A]));
    seen.add(&host.run(&["job", "show", A, "-o", "json"]));
    seen.check();
}

#[test]
fn an_unknown_job() {
    let mut seen = Transcript::new("job_an_unknown_job");
    let problem = r#"{"detail":"no job has the id 0199","code":"job_not_found"}"#;
    let host = CannedHost::start(&[(404, problem)]);
    seen.add(&host.run(&["job", "show", "0199"]));
    seen.check();
}

#[test]
fn wait_exits_with_what_became_of_the_job() {
    let mut seen = Transcript::new("job_wait_exits_with_what_became_of_the_job");
    let running = job("running", "");
    let discarded = job("discarded", DISCARDED);
    let cancelled = job(
        "cancelled",
        r#","finished_at":"2026-05-17T18:29:00Z","result":{"done":3}"#,
    );
    let host = CannedHost::start(&[
        (200, &discarded),
        (200, &cancelled),
        (200, &running),
        (200, &running),
        (200, &discarded),
        (200, &discarded),
        (200, &job("completed", COMPLETED)),
    ]);
    seen.add(&host.run(&["job", "wait", A]));
    seen.add(&host.run(&["job", "wait", A]));
    seen.add(&host.run(&["job", "wait", A, "--timeout", "100ms"]));
    seen.add(&host.run(&["job", "wait", A, "--timeout", "0s"]));
    seen.add(&host.run(&["job", "wait", A, "--quiet"]));
    seen.add(&host.run(&["job", "wait", A, "--quiet", "-o", "name"]));
    seen.add(&host.run(&["job", "wait", A, "--quiet"]));
    seen.check();
}

#[test]
fn a_result_that_is_withheld_fails_the_wait() {
    let mut seen = Transcript::new("job_a_result_that_is_withheld_fails_the_wait");
    let hidden = r#","finished_at":"2026-05-17T18:25:01.250Z","withheld":["params","result"]"#;
    let done = job("completed", hidden);
    let host = CannedHost::start(&[(200, &done), (200, &done)]);
    seen.add(&host.run(&["job", "wait", A]));
    seen.add(&host.run(&["job", "wait", A, "-o", "json"]));
    seen.check();
}

#[test]
fn a_wait_goes_on_when_the_host_comes_back() {
    let mut seen = Transcript::new("job_a_wait_goes_on_when_the_host_comes_back");
    let (running, done) = (job("running", ""), job("completed", COMPLETED));
    let host = CannedHost::start(&[
        (HANGS_UP, ""),
        (200, &running),
        (HANGS_UP, ""),
        (HANGS_UP, ""),
        (200, &done),
        (HANGS_UP, ""),
    ]);
    seen.add(&host.run(&["job", "wait", A]));
    seen.add(&host.run(&["job", "wait", A, "--timeout", "0s"]));
    seen.check();
}

#[test]
fn a_wait_begins_before_its_host() {
    let folder = tempfile::TempDir::new().unwrap();
    let socket = folder.path().join("api.sock");
    let server = format!("unix://{}", socket.display());
    let mut child = Command::new(env!("CARGO_BIN_EXE_host"))
        .args(["job", "wait", A, "--server", &server])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = BufReader::new(child.stderr.take().unwrap());
    let mut note = String::new();
    said.read_line(&mut note).unwrap();
    let expected = format!("no host answers at {server}; retrying\n");
    assert_eq!(note, expected);
    let listener = UnixListener::bind(&socket).unwrap();
    let done = job("completed", COMPLETED);
    let request = answer_one(&listener, 200, &done);
    assert!(
        request.starts_with(&format!("GET /api/v1/jobs/{A}/wait")),
        "{request}"
    );
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn a_wait_for_a_host_that_never_comes_runs_out() {
    let mut seen = Transcript::new("job_a_wait_for_a_host_that_never_comes_runs_out");
    let server = ("HOST_SERVER", "unix:///nonexistent/api.sock");
    for timeout in ["0s", "500ms"] {
        seen.add(&run(
            &["job", "wait", A, "--timeout", timeout],
            "",
            &[server],
        ));
    }
    seen.check();
}

#[test]
fn what_cannot_be_an_id_is_refused_before_it_is_sent() {
    let mut seen = Transcript::new("job_what_cannot_be_an_id_is_refused_before_it_is_sent");
    for arguments in [
        &["show", "count"][..],
        &["wait", ""],
        &["logs", "../queues"],
        &["cancel", A, "retry"],
        &["purge", "purge"],
        &["reschedule", "x", "--after", "1m"],
        &["enqueue", "echo", "--depends-on", "#0"],
        &["enqueue", "echo", "--depends-on", "0199:lost"],
        &["enqueue", "echo", "--input", "0199"],
        &["ls", "--id", "zz"],
    ] {
        seen.add(&run_alone(&[&["job"], arguments].concat()));
    }
    seen.check();
}

#[test]
fn cancel() {
    let mut seen = Transcript::new("job_cancel");
    let asked = r#"{"state":"running","cancel_requested_at":"2026-05-17T18:30:00Z"}"#;
    let gone = r#"{"state":"cancelled","cancel_requested_at":"2026-05-17T18:30:00Z"}"#;
    let terminal = r#"{"detail":"the job is already completed","code":"job_terminal"}"#;
    let host = CannedHost::start(&[
        (200, asked),
        (409, terminal),
        (200, gone),
        (200, asked),
        (200, &job("cancelled", "")),
    ]);
    let arguments = [
        "job",
        "cancel",
        A,
        "--reason",
        "wrong input",
        "--grace",
        "0s",
    ];
    seen.add(&host.run(&arguments));
    seen.add(&host.run(&["job", "cancel", "b", "c"]));
    seen.add(&host.run(&["job", "cancel", "d", "--wait"]));
    seen.check();
}

#[test]
fn retry() {
    let mut seen = Transcript::new("job_retry");
    let available = job("available", "");
    let host = CannedHost::start(&[
        (200, &available),
        (200, &available),
        (200, &job("completed", "")),
        (200, &job("pending", "")),
        (200, &available),
        (
            200,
            &job("available", r#","removed_deadline":"2026-05-17T18:29:59Z""#),
        ),
    ]);
    seen.add(&host.run(&["job", "retry", A]));
    seen.add(&host.run(&["job", "retry", A, "--wait"]));
    seen.add(&host.run(&["job", "retry", A]));
    seen.add(&host.run(&["job", "retry", A, "--force"]));
    seen.add(&host.run(&["job", "retry", A]));
    seen.check();
}

const LOGS: [&str; 2] = [
    r#"{"items":[{"attempt":1,"at_ms":3,"level":"info","source":"log","message":"starts","fields":{"rows":"10","note":"a\nb"}},{"attempt":1,"at_ms":12345,"level":"info","source":"stdout","message":"\u001b[31mred\u001b[0m\nattempt 9\n","fields":{}}],"next_cursor":"2"}"#,
    r#"{"items":[{"attempt":2,"at_ms":1,"level":"error","source":"log","message":"again"},{"attempt":2,"at_ms":2,"level":"warn","source":"host","message":"cut off"}],"next_cursor":null}"#,
];

#[test]
fn logs() {
    let mut seen = Transcript::new("job_logs");
    let completed = job("completed", "");
    let host = CannedHost::start(&[
        (200, &completed),
        (200, LOGS[0]),
        (200, LOGS[1]),
        (200, &completed),
        (200, LOGS[1]),
        (200, &completed),
        (200, r#"{"items":[],"next_cursor":null}"#),
    ]);
    seen.add(&host.run(&["job", "logs", A]));
    seen.add(&host.run(&["job", "logs", A, "-o", "jsonl"]));
    seen.add(&host.run(&["job", "logs", A]));
    seen.check();
}

#[test]
fn followed_logs_are_printed_once_and_to_the_end() {
    let mut seen = Transcript::new("job_followed_logs_are_printed_once_and_to_the_end");
    let more = LOGS[1].replace(
        ']',
        r#",{"attempt":2,"at_ms":9,"level":"info","message":"last"}]"#,
    );
    let host = CannedHost::start(&[
        (200, &job("running", "")),
        (200, LOGS[0]),
        (200, LOGS[1]),
        (200, &job("running", "")),
        (200, LOGS[1]),
        (200, &job("completed", "")),
        (200, &more),
    ]);
    seen.add(&host.run(&["job", "logs", A, "--follow"]));
    seen.check();
}
