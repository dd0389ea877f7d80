//! What holds for every command: servers that do not answer, readers that go away, wrong usage.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::canned::{CannedHost, Transcript, run, run_alone};

#[test]
fn help_of_all_and_wrong_usage() {
    let mut seen = Transcript::new("terminal_help_of_all_and_wrong_usage");
    seen.add(&run_alone(&["--help"]));
    seen.add(&run_alone(&[]));
    seen.add(&run_alone(&["jobs"]));
    seen.add(&run_alone(&["job", "ls", "-o", "yaml"]));
    seen.check();
}

#[test]
fn a_closed_standard_output_is_an_error() {
    let handlers = r#"{"items":[]}"#;
    let host = CannedHost::start(&[(200, handlers), (200, handlers)]);
    let run = |redirection: &str| {
        let script = format!("exec \"$0\" handler ls -o json {redirection}");
        let output = Command::new("sh")
            .args(["-c", &script, env!("CARGO_BIN_EXE_host")])
            .env("HOST_SERVER", host.url())
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        (output.status.code(), message)
    };
    let (code, message) = run(">&-");
    assert_eq!(code, Some(1), "{message}");
    let first = message.lines().next();
    let expected = "error: cannot write to standard output: it is closed";
    assert_eq!(first, Some(expected), "{message}");
    assert_eq!(run("<>/dev/null >&0"), (Some(0), String::new()));
}

#[test]
fn a_full_standard_output_is_an_error() {
    for arguments in [&["--help"][..], &["--version"], &["explain", "timed_out"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let output = Command::new(env!("CARGO_BIN_EXE_host"))
            .args(arguments)
            .stdout(full)
            .output()
            .unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {message}");
        assert!(message.starts_with("error: cannot write to standard output: "));
    }
}

/// What cannot be said ends nothing: the exit code stays that of the command.
#[test]
fn a_full_standard_error_changes_no_exit_code() {
    for (arguments, code) in [(&["jobs"][..], 2), (&["explain", "E_NO"], 5)] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_host"));
        let status = command.args(arguments).stderr(full).status().unwrap();
        assert_eq!(status.code(), Some(code), "{arguments:?}");
    }
}

#[test]
fn servers_that_are_no_servers() {
    let mut seen = Transcript::new("terminal_servers_that_are_no_servers");
    for server in [
        "https://127.0.0.1:7700",
        "127.0.0.1:7700",
        "http://127.0.0.1:7700/api",
        "http://\u{1b}[31m",
    ] {
        let ran = run(&["queue", "ls", "--server", server], "", &[]);
        seen.add(&ran);
    }
    seen.check();
}

#[test]
fn no_server_there() {
    let mut seen = Transcript::new("terminal_no_server_there");
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let server = format!("http://{port}");
    let ran = run(&["queue", "ls"], "", &[("HOST_SERVER", &server)]);
    seen.add(&ran.replace(&server, "http://127.0.0.1:PORT"));
    seen.check();
}

#[test]
fn a_server_of_something_else() {
    let mut seen = Transcript::new("terminal_a_server_of_something_else");
    let host = CannedHost::start(&[(404, "<html>nginx</html>"), (200, "<html>"), (302, "")]);
    seen.add(&host.run(&["queue", "ls"]));
    seen.add(&host.run(&["queue", "ls"]));
    seen.add(&host.run(&["queue", "ls"]));
    seen.check();
}

#[test]
fn refusals_are_shown_and_do_nothing_to_the_terminal() {
    let mut seen = Transcript::new("terminal_refusals_are_told_and_do_nothing_to_the_terminal");
    let problem =
        r#"{"detail":"bad \u001b[31mred\u0007","code":"x\u001by","next":"try \u202e this"}"#;
    let host = CannedHost::start(&[(422, problem), (500, r#"{"title":"broken"}"#)]);
    seen.add(&host.run(&["queue", "ls"]));
    seen.add(&host.run(&["queue", "ls"]));
    seen.check();
}

#[test]
fn a_proxy_of_the_environment_is_not_used() {
    let host = CannedHost::start(&[]);
    let proxy = host.url();
    let environment = [
        ("http_proxy", proxy.as_str()),
        ("ALL_PROXY", proxy.as_str()),
        ("HOST_SERVER", "http://127.0.0.1:1"),
    ];
    let ran = run(&["queue", "ls"], "", &environment);
    assert!(ran.ends_with("exit 6\n"), "{ran}");
}

#[test]
fn a_reader_that_goes_away_ends_the_command_quietly() {
    let item = r#"{"name":"default","counts":{}}"#;
    let page = format!(r#"{{"items":[{}]}}"#, vec![item; 5000].join(","));
    let host = CannedHost::start(&[(200, &page)]);
    let mut child = Command::new(env!("CARGO_BIN_EXE_host"))
        .args(["queue", "ls", "-o", "jsonl", "--server", &host.url()])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0; 10];
    let mut stdout = child.stdout.take().unwrap();
    stdout.read_exact(&mut first).unwrap();
    drop(stdout);
    let output = child.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert_eq!(output.status.code(), Some(0));
}

#[test]
fn codes_are_explained() {
    let mut seen = Transcript::new("terminal_codes_are_explained");
    for code in [
        "runner_not_found",
        "timed_out",
        "E_JOB_TAMPERED",
        "E_FIELD_RANGE",
        "E_NO",
    ] {
        seen.add(&run_alone(&["explain", code]));
    }
    seen.add(&run_alone(&["explain", "E_FIELD_RANGE", "-o", "json"]));
    seen.add(&run_alone(&["explain", "timed_out", "-o", "json"]));
    seen.check();
}

/// Reads a request, and answers it unless it is one to wait.
fn answer(mut stream: &TcpStream, body: &str) -> bool {
    let mut request = Vec::new();
    let mut bytes = [0; 4_096];
    loop {
        let length = stream.read(&mut bytes).unwrap();
        request.extend_from_slice(&bytes[..length]);
        let text = String::from_utf8_lossy(&request);
        if text.starts_with("GET ") && text.contains("/wait") {
            return true;
        }
        let has_ended = text.split_once("\r\n\r\n").is_some_and(|(head, body)| {
            let lines = head.lines().map(str::to_ascii_lowercase);
            let mut lengths =
                lines.filter_map(|it| it.strip_prefix("content-length: ")?.parse().ok());
            body.len() >= lengths.next().unwrap_or(0_usize)
        });
        if length == 0 || has_ended {
            break;
        }
    }
    let length = body.len();
    write!(
        stream,
        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}"
    )
    .unwrap();
    false
}

#[test]
fn an_interrupted_wait_says_that_the_job_continues() {
    let id = "01990f3c-1a2b-7000-8000-000000000001";
    let document = format!(r#"{{"id":"{id}","state":"available","existing":false}}"#);
    for (arguments, said) in [
        (
            &["job", "enqueue", "echo", "--wait"][..],
            "the job continues; `host job wait 01990f3c-1a2b` waits again",
        ),
        (
            &["job", "wait", id, "-o", "json"],
            "the job continues; `host job wait 01990f3c-1a2b` waits again",
        ),
        (&["job", "wait", id, "--quiet"], ""),
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut ran = Command::new(env!("CARGO_BIN_EXE_host"))
            .args(arguments)
            .env(
                "HOST_SERVER",
                format!("http://{}", listener.local_addr().unwrap()),
            )
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It stays open until the command has ended.
        let _stream = loop {
            let (stream, _) = listener.accept().unwrap();
            if answer(&stream, &document) {
                break stream;
            }
        };
        kill_process(Pid::from_child(&ran), Signal::INT).unwrap();
        let status = ran.wait().unwrap();
        assert_eq!(status.signal(), Some(Signal::INT.as_raw()), "{status}");
        let mut text = String::new();
        ran.stderr
            .take()
            .unwrap()
            .read_to_string(&mut text)
            .unwrap();
        assert!(
            text.contains(said) && (said.is_empty() == text.is_empty()),
            "{text}"
        );
    }
}

#[test]
fn an_interrupted_import_says_where_to_continue() {
    let id = "01990f3c-1a2b-7000-8000-000000000001";
    let accepted = format!("{{\"id\":\"{id}\",\"state\":\"available\",\"existing\":false}}\n");
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let mut ran = Command::new(env!("CARGO_BIN_EXE_host"))
        .args(["job", "import", "-", "-o", "name", "--server", &server])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Standard input stays open, so the command waits for the next line.
    let mut lines = ran.stdin.take().unwrap();
    lines.write_all(b"{\"handler\":\"echo\"}\n").unwrap();
    let (stream, _) = listener.accept().unwrap();
    answer(&stream, &accepted);
    let mut printed = BufReader::new(ran.stdout.take().unwrap());
    let mut line = String::new();
    printed.read_line(&mut line).unwrap();
    assert_eq!(line.trim(), id);
    kill_process(Pid::from_child(&ran), Signal::INT).unwrap();
    let status = ran.wait().unwrap();
    assert_eq!(status.signal(), Some(Signal::INT.as_raw()), "{status}");
    let mut said = String::new();
    let mut errors = ran.stderr.take().unwrap();
    errors.read_to_string(&mut said).unwrap();
    assert!(said.contains("`--from-line "), "{said}");
}
