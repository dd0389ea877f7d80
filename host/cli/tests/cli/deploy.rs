//! `host deploy`.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use tempfile::TempDir;

use crate::canned::{CannedHost, Transcript, run_alone};

const TAKEN: &str = r#"{"component":"report","revision":2,"digest":"3f2a9c00","handlers":["report","team/sum"],"handlers_removed":[{"handler":"old","jobs":0},{"handler":"one","jobs":1},{"handler":"late","jobs":12}],"grants_added":["report: env TZ","report: read /srv/\u001b[1mreports as /reports"],"grants_removed":["team/sum: env LANG"],"stubbed":["wasi:sockets/tcp@0.2.6","wasi:sockets/udp@0.2.6"]}"#;
const SAME: &str = r#"{"component":"report","revision":2,"digest":"3f2a9c00","handlers":["report"],"grants_added":[]}"#;

const MANIFEST: &str = "\
# billing's reports
name = \"billing\"
[defaults]
memory_mib = 128
[handlers.report]
memory_mib = 256
";

/// A directory with files in it, and what it is called in transcripts.
struct Files(TempDir);

impl Files {
    fn new(files: &[(&str, &str)]) -> Self {
        let dir = TempDir::new().unwrap();
        for (name, text) in files {
            std::fs::write(dir.path().join(name), text).unwrap();
        }
        Self(dir)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn path_of(&self, name: &str) -> String {
        self.path().join(name).display().to_string()
    }

    fn without_path(&self, ran: &str) -> String {
        ran.replace(&self.path().display().to_string(), "DIR")
    }
}

#[test]
fn help() {
    let mut seen = Transcript::new("deploy_help");
    seen.add(&run_alone(&["deploy", "--help"]));
    seen.check();
}

#[test]
fn a_component_alone() {
    let mut seen = Transcript::new("deploy_a_component_alone");
    let files = Files::new(&[("report.wasm", "(component)")]);
    let file = files.path_of("report.wasm");
    let host = CannedHost::start(&[(201, TAKEN), (200, SAME), (201, TAKEN), (200, SAME)]);
    for more in [&[][..], &["-q"], &["-o", "json"], &["-o", "name"]] {
        let arguments = [&["deploy", &file], more].concat();
        seen.add(&files.without_path(&host.run(&arguments)));
    }
    seen.check();
}

const RESET: &str = r#"{"component":"report","revision":3,"digest":"3f2a9c00","handlers":["report"],"handlers_removed":[],"grants_added":[],"limits_changed":[{"handler":"report","limit":"memory_bytes","before":268435456,"after":67108864},{"handler":"sum","limit":"memory_bytes","before":268435456,"after":67108864},{"handler":"report","limit":"fuel","before":25000,"after":null},{"handler":"report\u001b[1m","limit":"timeout_ms","before":90000,"after":30000},{"handler":"report","limit":"retention_discarded_ms","before":null,"after":86400000}],"stubbed":[]}"#;

#[test]
fn limits_that_an_earlier_manifest_gave_are_not_lost_in_silence() {
    let mut seen = Transcript::new("deploy_limits_that_an_earlier_manifest_gave");
    let files = Files::new(&[("report.wasm", "(component)"), ("other.toml", MANIFEST)]);
    let (file, other) = (files.path_of("report.wasm"), files.path_of("other.toml"));
    let host = CannedHost::start(&[(201, RESET), (201, RESET), (201, RESET)]);
    for more in [
        &[][..],
        &["--manifest", &other, "--name", "report"],
        &["-o", "json"],
    ] {
        let arguments = [&["deploy", &file], more].concat();
        seen.add(&files.without_path(&host.run(&arguments)));
    }
    seen.check();
}

#[test]
fn the_manifest_beside_it_goes_with_it() {
    let mut seen = Transcript::new("deploy_the_manifest_beside_it_goes_with_it");
    let files = Files::new(&[
        ("report.wasm", "(component)"),
        ("report.toml", MANIFEST),
        ("other.toml", "[defaults]\ntimeout_seconds = 3\n"),
    ]);
    let (file, other) = (files.path_of("report.wasm"), files.path_of("other.toml"));
    let host = CannedHost::start(&[(200, SAME), (200, SAME), (200, SAME)]);
    for more in [&[][..], &["--manifest", &other], &["--name", "team/report"]] {
        let arguments = [&["deploy", &file], more].concat();
        seen.add(&files.without_path(&host.run(&arguments)));
    }
    seen.check();
}

#[test]
fn options_stand_above_the_manifest() {
    let mut seen = Transcript::new("deploy_options_stand_above_the_manifest");
    let files = Files::new(&[("report.wasm", "(component)"), ("report.toml", MANIFEST)]);
    let file = files.path_of("report.wasm");
    let host = CannedHost::start(&[(201, TAKEN)]);
    let all = [
        "deploy",
        &file,
        "--memory-mib",
        "64",
        "--timeout",
        "1m30s",
        "--fuel",
        "1000000",
        "--env",
        "TZ",
        "--env",
        "LANG",
        "--read-dir",
        "/srv/reports:/reports",
    ];
    seen.add(&files.without_path(&host.run(&all)));
    seen.check();
}

/// The component on two nodes: one can run it, the other is in this state.
fn on_two(revision: u32, other: &str) -> String {
    format!(
        r#"{{"component":"report","current":{revision},"revisions":[],"nodes":[{{"id":"0199a0b0-0000-7000-8000-000000000001","name":"one","state":"live","component":"ready"}},{{"id":"0199a0b0-0000-7000-8000-000000000002","name":"t\u001b[31mwo","state":"live",{other}}}]}}"#
    )
}

#[test]
fn waiting_until_all_nodes_can_run_it() {
    let mut seen = Transcript::new("deploy_waiting_until_all_nodes_can_run_it");
    let files = Files::new(&[("report.wasm", "(component)")]);
    let file = files.path_of("report.wasm");
    let on_one = SAME.replace('}', r#","nodes_ready":1,"nodes_all":2}"#);
    let compiling = on_two(2, r#""component":"compiling""#);
    let ready = on_two(2, r#""component":"ready""#);
    let failed = on_two(2, r#""component":"failed","reason":"the folder is full""#);
    let replaced = on_two(3, r#""component":"ready""#);
    let host = CannedHost::start(&[
        (201, &on_one),
        (201, &on_one),
        (200, &compiling),
        (200, &ready),
        (201, &on_one),
        (200, &compiling),
        (200, &failed),
        (201, &on_one),
        (200, &compiling),
        (201, &on_one),
        (200, &replaced),
    ]);
    for more in [
        &[][..],
        &["--wait-nodes"],
        &["--wait-nodes=10m", "-q"],
        &["--wait-nodes=0s"],
        &["--wait-nodes"],
        &["--wait-nodes=soon"],
    ] {
        let arguments = [&["deploy", &file], more].concat();
        seen.add(&files.without_path(&host.run(&arguments)));
    }
    seen.check();
}

#[test]
fn a_deploy_that_takes_long_shows_progress() {
    let files = Files::new(&[("report.wasm", "(component)")]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let mut deploying = Command::new(env!("CARGO_BIN_EXE_host"))
        .args(["--server", &server, "deploy", &files.path_of("report.wasm")])
        .env_clear()
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let (seen, answered) = sync_channel::<()>(1);
    let answering = std::thread::spawn(move || {
        // It is answered late if nothing is shown, so that the test ends.
        let _ = answered.recv_timeout(Duration::from_secs(30));
        listener
    });
    let mut lines = BufReader::new(deploying.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert_eq!(first, "deploying report: 2 s");
    seen.send(()).unwrap();
    // The connection breaks.
    drop(answering.join().unwrap());
    assert_eq!(deploying.wait().unwrap().code(), Some(6));
}

#[test]
fn a_refusal_says_why() {
    let mut seen = Transcript::new("deploy_a_refusal_says_why");
    let files = Files::new(&[("report.wasm", "text")]);
    let refused = r#"{"status":422,"detail":"the file is no WebAssembly component: it starts with text","code":"not_a_component","next":"build it for wasm32-wasip2"}"#;
    let unfit = r#"{"status":409,"detail":"params of waiting jobs do not match the new schema: sum: 2 of 3 waiting jobs, such as 01990f3c-1a2b-7000-8000-000000000001 (\"n\" is a required property)","code":"waiting_jobs_unfit","next":"--force deploys anyway"}"#;
    let host = CannedHost::start(&[(422, refused), (409, unfit), (201, TAKEN)]);
    let file = files.path_of("report.wasm");
    for more in [&[][..], &[], &["--force"]] {
        let ran = host.run(&[&["deploy", &file], more].concat());
        seen.add(&files.without_path(&ran));
    }
    seen.check();
}

#[test]
fn a_large_component_is_refused_before_it_is_sent() {
    let text = "x".repeat(2 << 20);
    let files = Files::new(&[("large.wasm", &text)]);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = format!("http://{}", listener.local_addr().unwrap());
    let refusing = std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let head: Vec<_> = BufReader::new(&stream)
            .lines()
            .map(Result::unwrap)
            .take_while(|line| !line.is_empty())
            .collect();
        let problem = r#"{"detail":"a component has at most 1 MiB","code":"body_too_large"}"#;
        let length = problem.len();
        write!(
            stream,
            "HTTP/1.1 413 Canned\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{problem}"
        )
        .unwrap();
        head
    });
    let ran = run_alone(&["deploy", &files.path_of("large.wasm"), "--server", &server]);
    assert!(ran.contains("at most 1 MiB (body_too_large)"), "{ran}");
    assert!(ran.ends_with("exit 1\n"), "{ran}");
    let head = refusing.join().unwrap();
    assert!(
        head.iter().any(|line| line == "expect: 100-continue"),
        "{head:?}"
    );
}

#[test]
fn wrong_arguments() {
    let mut seen = Transcript::new("deploy_wrong_arguments");
    let files = Files::new(&[
        ("a.wasm", "(component)"),
        ("my file (1).wasm", "(component)"),
        ("no.toml", "[defaults\n"),
        ("name.toml", "name = 3\n"),
        ("bad.toml", "name = \"a b\"\n"),
        ("defaults.toml", "defaults = 3\n"),
    ]);
    let file = files.path_of("a.wasm");
    for arguments in [
        vec![],
        vec![files.path_of("none.wasm")],
        vec![files.path().display().to_string()],
        vec!["/dev/zero".to_owned()],
        vec![files.path_of("my file (1).wasm")],
        vec![file.clone(), "--name=a b".to_owned()],
        vec![file.clone(), "--memory-mib=0".to_owned()],
        vec![file.clone(), "--fuel=1e9".to_owned()],
        vec![file.clone(), "--timeout=30".to_owned()],
        vec![file.clone(), "--read-dir=/srv".to_owned()],
        vec![
            file.clone(),
            format!("--manifest={}", files.path_of("none")),
        ],
        vec![
            file.clone(),
            format!("--manifest={}", files.path_of("no.toml")),
        ],
        vec![
            file.clone(),
            format!("--manifest={}", files.path_of("name.toml")),
        ],
        vec![
            file.clone(),
            format!("--manifest={}", files.path_of("bad.toml")),
        ],
        vec![
            file.clone(),
            format!("--manifest={}", files.path_of("defaults.toml")),
            "--fuel=1".to_owned(),
        ],
    ] {
        let words: Vec<_> = arguments.iter().map(String::as_str).collect();
        let arguments = [vec!["deploy"], words].concat();
        seen.add(&files.without_path(&run_alone(&arguments)));
    }
    seen.check();
}
