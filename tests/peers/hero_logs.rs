//! `log_path` of Hero jobs with the real program: the content of the files, and which paths are refused.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use host_tests::server::host as program;
use host_tests::{HeroWorker, Redis, Server, eventually};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use tempfile::TempDir;

use crate::hero_serve::{Client, Fixture, WAIT_MAX, id};

fn host(fixture: &Fixture) -> Server {
    let logs = fixture.path("logs");
    let lines = format!("log_dir = \"{}\"", logs.display());
    fixture.host_with("data", &fixture.redis.url(), &lines)
}

/// Waits until a file has `count` lines. They may be written after the job ends.
fn lines(path: &Path, count: usize) -> Vec<String> {
    eventually("lines in a log file", WAIT_MAX, || {
        let text = fs::read_to_string(path).ok()?;
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        (lines.len() >= count).then_some(lines)
    })
}

#[test]
fn output_of_guests_is_written_to_the_file_of_the_job() {
    let fixture = Fixture::new(Redis::start());
    let host = host(&fixture);
    let mut client = fixture.client();
    let rhai = "print(\"hello\"); debug(\"deep\"); 1";
    client.submit(1, &[("script", rhai), ("log_path", "rhai/one.log")]);
    assert_eq!(client.reply(1), "1");
    let found = lines(&fixture.path("logs/rhai/one.log"), 2);
    assert!(
        found[0].contains(" info  ") && found[0].ends_with("hello"),
        "{found:?}"
    );
    assert!(
        found[1].contains(" debug ") && found[1].contains("deep"),
        "{found:?}"
    );
    for line in &found {
        assert!(line.starts_with("20") && line.contains(&id(1)), "{line}");
    }
    let absolute = fixture.path("logs/actions.log").display().to_string();
    let heroscript = "!!vm.define name:'box' cpu:2";
    client.submit(2, &[("script", heroscript), ("log_path", &absolute)]);
    client.until_status(2, "finished");
    let found = lines(&fixture.path("logs/actions.log"), 1);
    assert!(found[0].ends_with("defined"), "{found:?}");
    // The retry of a failed script appends to the file.
    let flaky = r#"{"fail_times":1}"#;
    let fields = [
        ("handler", "flaky"),
        ("script", flaky),
        ("retries", "1"),
        ("log_path", "f.log"),
    ];
    client.submit(3, &fields);
    client.until_status(3, "finished");
    // Each line is also in the job's log in the host.
    let ours = eventually("the history", WAIT_MAX, || {
        let list = host.client().get("/api/v1/jobs?limit=100").unwrap().body;
        let mut items = list["items"].as_array().unwrap().iter();
        let ours = items.find(|job| job["handler"] == "hero.rhai")?;
        ours["id"].as_str().map(str::to_owned)
    });
    let path = format!("/api/v1/jobs/{ours}/logs");
    let kept = eventually("the log to be kept", WAIT_MAX, || {
        let kept = host.client().get(&path).unwrap().body;
        kept["items"][0].is_object().then_some(kept)
    });
    assert_eq!(kept["items"][0]["message"], "hello", "{kept}");
    assert_eq!(host.stop(), Some(0));
}

#[test]
fn jobs_that_share_a_file_keep_their_lines_whole() {
    let fixture = Fixture::new(Redis::start());
    let _host = host(&fixture);
    let mut client = fixture.client();
    let script = "for i in 0..50 { print(`line ${i} of ${CALLER_ID}`); }";
    for n in 1..=8 {
        let who = format!("caller-{n}");
        client.submit(
            n,
            &[
                ("script", script),
                ("caller_id", &who),
                ("log_path", "all.log"),
            ],
        );
    }
    for n in 1..=8 {
        client.until_status(n, "finished");
    }
    let found = lines(&fixture.path("logs/all.log"), 400);
    assert_eq!(found.len(), 400);
    for n in 1..=8 {
        let own: Vec<&String> = found.iter().filter(|line| line.contains(&id(n))).collect();
        for (i, line) in own.iter().enumerate() {
            let words = format!("line {i} of caller-{n}");
            assert!(line.ends_with(&words), "{line} is not {words}");
        }
        assert_eq!(own.len(), 50);
    }
}

/// Checks that a job with this path has not started.
fn expect_refusal(client: &mut Client, n: u32, log_path: &str) {
    client.submit(
        n,
        &[
            ("script", "print(\"x\")"),
            ("log_path", log_path),
            ("retries", "3"),
        ],
    );
    client.failed(n, "E_LOG_PATH log_path: ");
    let error = client.field(n, "error");
    assert!(!error.contains(log_path), "no value is quoted: {error}");
}

#[test]
fn paths_that_are_not_files_below_log_dir_are_refused() {
    let fixture = Fixture::new(Redis::start());
    let logs = fixture.path("logs");
    let outside = fixture.path("outside");
    fs::create_dir_all(logs.join("kept")).unwrap();
    fs::create_dir(&outside).unwrap();
    symlink(&outside, logs.join("link")).unwrap();
    symlink(outside.join("x"), logs.join("dangling")).unwrap();
    mknodat(CWD, logs.join("fifo"), FileType::Fifo, Mode::RWXU, 0).unwrap();
    let _host = host(&fixture);
    let mut client = fixture.client();
    let elsewhere = outside.join("x").display().to_string();
    let paths = [
        "../../etc/x",
        "../outside/x",
        &elsewhere,
        "/etc/host-was-here",
        "/dev/null",
        "/dev/stdout",
        "link/x",
        "dangling",
        "fifo",
        "kept",
        "kept/",
        "a\u{7}b",
    ];
    for (n, path) in (1..).zip(paths) {
        expect_refusal(&mut client, n, path);
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    assert!(!Path::new("/etc/host-was-here").exists());
    client.submit(90, &[("script", "print(\"x\"); 1"), ("log_path", "kept/x")]);
    assert_eq!(client.reply(90), "1");
    assert_eq!(lines(&logs.join("kept/x"), 1).len(), 1);
}

#[test]
fn host_worker_hero_writes_logs_and_completes_them_when_it_stops() {
    let fixture = Fixture::new(Redis::start());
    let (folder, handlers) = (fixture.path(""), fixture.path("handlers"));
    let logs = fixture.path("logs").display().to_string();
    let args = ["--worker-id", "w1", "--log-dir", &logs];
    let url = fixture.redis.url();
    let worker = HeroWorker::start_with(&folder, "worker", &handlers, &url, &args);
    let mut client = fixture.client();
    let script = "for i in 0..200 { print(i); }";
    client.submit(1, &[("script", script), ("log_path", "a.log")]);
    client.until_status(1, "finished");
    expect_refusal(&mut client, 2, "../x");
    assert_eq!(worker.stop().0, Some(0));
    let text = fs::read_to_string(fixture.path("logs/a.log")).unwrap();
    assert_eq!(text.lines().count(), 200);
}

#[test]
fn an_unusable_log_dir_fails_the_start() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("file");
    fs::write(&file, "").unwrap();
    let run = |args: &[&str]| {
        let mut command = Command::new(program());
        command
            .args(args)
            .env("HOST_HERO_URL", "redis://127.0.0.1:1");
        command
            .env("HOST_HERO_LOG_DIR", &file)
            .env("HOST_HTTP_LISTEN", "off");
        let output = command.current_dir(folder.path()).output().unwrap();
        let text = [output.stdout, output.stderr].concat();
        (output.status.code(), String::from_utf8(text).unwrap())
    };
    let (code, printed) = run(&["serve", "--rrq-listen", "off"]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(
        printed.contains("for log files") && printed.contains("log_dir"),
        "{printed}"
    );
    let (code, printed) = run(&["doctor", "-o", "jsonl"]);
    assert_eq!(code, Some(1), "{printed}");
    assert!(
        printed.contains("cannot be written: Not a directory"),
        "{printed}"
    );
}

#[test]
fn without_log_dir_the_error_says_what_to_set() {
    let fixture = Fixture::new(Redis::start());
    let _host = fixture.host("data");
    let mut client = fixture.client();
    expect_refusal(&mut client, 1, "a.log");
    assert!(client.field(1, "error").contains("HOST_HERO_LOG_DIR"));
}
