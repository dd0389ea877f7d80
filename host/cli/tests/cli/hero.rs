//! `host hero`.

use crate::canned::{CannedHost, HANGS_UP, Transcript, run, run_alone};

const A: &str = "3f2b8a1c-7d5e-4c1a-9b1e-0a6f4d2c8e11";
const B: &str = "4a2b8a1c-7d5e-4c1a-9b1e-0a6f4d2c8e22";

fn job(id: &str, status: &str, more: &str) -> String {
    format!(
        r#"{{"id":"{id}","worker_id":"w1","status":"{status}","caller_id":"host","context_id":"default","timeout_seconds":30.0,"retries":0,"concurrent":true,"created_at":"2026-05-17T18:25:00.000Z","updated_at":"2026-05-17T18:29:30.000Z"{more}}}"#
    )
}

fn waiting() -> String {
    let more = format!(
        r#","waits_for":[{{"id":"{B}","status":"missing"}},{{"id":"{A}","status":"started"}}],"script":"1 \u001b[31m+ 1","dependencies":["{B}"],"env_vars":{{"REGION":"eu"}},"log_path":"a.log","left_out":{{"output":20000000}}"#
    );
    job(A, "dispatched", &more)
}

fn finished() -> String {
    job(
        A,
        "finished",
        r#","handler":"echo","output":"{\"a\":1}\n\u001b[2Jend""#,
    )
}

fn failed() -> String {
    job(A, "error", r#","error":"no \u001b[31mroom""#)
}

#[test]
fn help() {
    let mut seen = Transcript::new("hero_help");
    seen.add(&run_alone(&["hero", "--help"]));
    for verb in [
        "ls", "submit", "run", "status", "wait", "logs", "stop", "requeue", "worker",
    ] {
        seen.add(&run_alone(&["hero", verb, "--help"]));
    }
    seen.check();
}

#[test]
fn wrong_arguments() {
    let mut seen = Transcript::new("hero_wrong_arguments");
    for arguments in [
        vec!["submit", "--worker", "w1"],
        vec!["submit", "--script", "1"],
        vec![
            "submit",
            "--worker",
            "w1",
            "--script",
            "1",
            "--handler",
            "echo",
        ],
        vec![
            "submit", "--worker", "w1", "--script", "1", "--params", "{}",
        ],
        vec!["submit", "--worker", "w1", "--script", "@/nowhere/s.rhai"],
        vec!["submit", "--worker", "w1", "--script", "1", "--env", "x"],
        vec![
            "submit",
            "--worker",
            "w1",
            "--script",
            "1",
            "--timeout",
            "5",
        ],
        vec!["requeue"],
        vec!["requeue", "--stale"],
        vec!["requeue", A, "--stale", "--worker", "w1"],
        vec!["ls", "--status", "running"],
    ] {
        seen.add(&run_alone(&[vec!["hero"], arguments].concat()));
    }
    seen.check();
}

#[test]
fn a_submission_sends_what_it_was_given() {
    let mut seen = Transcript::new("hero_a_submission_sends_what_it_was_given");
    let queued = format!(r#"{{"id":"{A}","worker_id":"w1","existing":false,"waits_for":[]}}"#);
    let known = format!(r#"{{"id":"{A}","worker_id":"w1","existing":true,"waits_for":[]}}"#);
    let waits = format!(r#"{{"id":"{A}","worker_id":"w1","existing":false,"waits_for":["{B}"]}}"#);
    let cycle = r#"{"status":422,"code":"dependency_cycle","title":"Jobs wait for each other","detail":"E_DEP_CYCLE dependencies: the jobs wait for each other: a -> b -> a","next":"Take one out."}"#;
    let off = r#"{"status":409,"code":"hero_off","title":"Hero is not configured","detail":"no Redis is configured; set protocol.hero.url (HOST_HERO_URL)","next":"Set it."}"#;
    let host = CannedHost::start(&[
        (201, &queued),
        (200, &known),
        (201, &waits),
        (201, &queued),
        (422, cycle),
        (409, off),
    ]);
    let submit = ["hero", "submit", "--worker", "w1", "--script", "40 + 2"];
    seen.add(&host.run(&submit));
    seen.add(&host.run(&[&submit[..], &["--id", A]].concat()));
    #[rustfmt::skip]
    let all = [
        "hero", "submit", "--worker", "w1", "--handler", "echo", "--params", r#"{"z": 1.10}"#,
        "--timeout", "1m30s", "--retries", "2", "--after", B, "--context-id", "office", "--alone",
        "--caller", "al", "--env", "A=b=c", "--log-path", "a/b.log", "--id", A,
    ];
    seen.add(&host.run(&all));
    seen.add(&host.run(&[&submit[..], &["--script-type", "rhai", "-o", "json"]].concat()));
    seen.add(&host.run(&submit));
    seen.add(&host.run(&submit));
    seen.check();
}

#[test]
fn a_script_from_standard_input() {
    let queued = format!(r#"{{"id":"{A}","worker_id":"w1"}}"#);
    let host = CannedHost::start(&[(201, &queued)]);
    #[rustfmt::skip]
    let arguments = ["hero", "submit", "--worker", "w1", "--script", "-", "--server", &host.url()];
    let ran = run(&arguments, "!!vm.define\n", &[]);
    assert!(ran.contains("exit 0"), "{ran}");
    let asked = host.requests();
    assert!(asked.contains(r#""script":"!!vm.define\n""#), "{asked}");
}

#[test]
fn a_wait_goes_on_when_the_host_comes_back() {
    let mut seen = Transcript::new("hero_a_wait_goes_on_when_the_host_comes_back");
    // A host that stops answers early: that is no time that has passed.
    let (waits, done) = (waiting(), finished());
    let host = CannedHost::start(&[(200, &waits), (HANGS_UP, ""), (HANGS_UP, ""), (200, &done)]);
    seen.add(&host.run(&["hero", "wait", A]));
    seen.check();
}

#[test]
fn a_run_tells_how_it_went() {
    let mut seen = Transcript::new("hero_a_run_tells_how_it_went");
    let queued = format!(r#"{{"id":"{A}","worker_id":"w1","existing":false,"waits_for":[]}}"#);
    let stopped = job(A, "error", r#","error":"stopped_by_request""#);
    let ends = [finished(), failed(), stopped, waiting(), finished()];
    let answers: Vec<(u16, &str)> = ends
        .iter()
        .flat_map(|end| [(201, queued.as_str()), (200, end.as_str())])
        .collect();
    let host = CannedHost::start(&answers);
    let arguments = ["hero", "run", "--worker", "w1", "--script", "1"];
    for more in [
        vec![],
        vec![],
        vec![],
        vec!["--within", "0s"],
        vec!["-o", "json", "-q"],
    ] {
        seen.add(&host.run(&[&arguments[..], &more].concat()));
    }
    seen.check();
}

#[test]
fn a_list() {
    let mut seen = Transcript::new("hero_a_list");
    let newer =
        job(B, "started", r#","stale":true,"script_type":"rhai""#).replace("18:25", "18:26");
    let waiting = waiting().replace(r#","status":"missing""#, "");
    let one = format!(r#"{{"items":[{waiting}],"next_cursor":"17"}}"#);
    let two = format!(r#"{{"items":[{newer},{waiting}],"next_cursor":null}}"#);
    let none = r#"{"items":[],"next_cursor":null}"#;
    let host = CannedHost::start(&[
        (200, &one),
        (200, &two),
        (200, &two),
        (200, &two),
        (200, none),
    ]);
    seen.add(&host.run(&["hero", "ls"]));
    seen.add(&host.run(&[
        "hero", "ls", "--limit", "1", "--worker", "w1", "--status", "started",
    ]));
    seen.add(&host.run(&["hero", "ls", "-o", "name"]));
    seen.add(&host.run(&["hero", "ls"]));
    seen.check();
}

#[test]
fn one_job() {
    let mut seen = Transcript::new("hero_one_job");
    let missing = r#"{"status":404,"code":"hero_job_not_found","title":"No such Hero job","detail":"Redis has no job x","next":"Look."}"#;
    let stale = job(A, "started", r#","stale":true"#);
    let host = CannedHost::start(&[
        (200, &waiting()),
        (200, &finished()),
        (200, &failed()),
        (200, &stale),
        (404, missing),
        (200, &finished()),
    ]);
    for _ in 0..4 {
        seen.add(&host.run(&["hero", "status", A]));
    }
    seen.add(&host.run(&["hero", "status", "x/../y"]));
    seen.add(&host.run(&["hero", "wait", A, "-o", "name"]));
    seen.check();
}

#[test]
fn logs_and_queues() {
    let mut seen = Transcript::new("hero_logs_and_queues");
    let log = format!(
        r#"{{"id":"{A}","log_path":"a.log","file_bytes":2048,"skipped_bytes":1024,"text":"one\n\u001b[31mtwo\n"}}"#
    );
    let empty =
        format!(r#"{{"id":"{A}","log_path":"a.log","file_bytes":0,"skipped_bytes":0,"text":""}}"#);
    let worker = r#"{"worker_id":"w1","queued":25277,"processing":3,"stops":1,"dead_letters":0}"#;
    let host = CannedHost::start(&[(200, &log), (200, &empty), (200, worker)]);
    seen.add(&host.run(&["hero", "logs", A, "--tail-bytes", "1024"]));
    seen.add(&host.run(&["hero", "logs", A]));
    seen.add(&host.run(&["hero", "worker", "w1"]));
    seen.check();
}

#[test]
fn steering() {
    let mut seen = Transcript::new("hero_steering");
    let asked = format!(r#"{{"id":"{A}","stopped":false}}"#);
    let stopped = format!(r#"{{"id":"{B}","stopped":true}}"#);
    let busy = r#"{"status":409,"code":"hero_job_busy","title":"The Hero job is being run","detail":"E_JOB_BUSY status: the job is started","next":"Wait."}"#;
    let queued = job(A, "dispatched", "");
    let first = format!(r#"{{"requeued":["{A}"],"next_cursor":"17"}}"#);
    let last = format!(r#"{{"requeued":["{B}"],"next_cursor":null}}"#);
    let host = CannedHost::start(&[
        (200, &asked),
        (200, &stopped),
        (409, busy),
        (200, &queued),
        (200, &waiting()),
        (200, &first),
        (200, &last),
    ]);
    seen.add(&host.run(&["hero", "stop", A, B]));
    seen.add(&host.run(&["hero", "requeue", A]));
    seen.add(&host.run(&["hero", "requeue", A, A, "--force"]));
    seen.add(&host.run(&["hero", "requeue", "--stale", "--worker", "w1"]));
    seen.check();
}
