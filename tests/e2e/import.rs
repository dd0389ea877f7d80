//! `host job import`: jobs in lines, from a file and from a pipe.

use std::fmt::Write as _;
use std::io::Write as _;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use host_tests::eventually;
use host_tests::server::host;
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::fixture::{Own, deploy, own};

const JOBS: usize = 1_500;

fn import(own: &Own, file: &str) -> Command {
    let mut command = Command::new(host());
    let server = format!("http://{}", own.server.address());
    command.args(["job", "import", file, "--server", &server]);
    command
}

/// Returns how many jobs were enqueued, existed already and were refused.
fn totals(ran: &Output) -> [u64; 3] {
    let totals: Value = serde_json::from_slice(&ran.stdout).unwrap();
    ["enqueued", "existing", "refused"].map(|name| totals[name].as_u64().unwrap())
}

#[test]
fn a_file_is_imported_once_however_often() {
    let own = own();
    deploy(&own.server.client(), "basics");
    let mut file = NamedTempFile::new().unwrap();
    let mut lines = String::new();
    for n in 0..JOBS {
        let priority = if n == 700 { 10 } else { 5 };
        writeln!(lines, r#"{{"handler": "noop", "priority": {priority}, "unique": {{"key": "{n}", "scope": "retained"}}}}"#)
            .unwrap();
    }
    file.write_all(lines.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let ran = import(&own, path).args(["-o", "json"]).output().unwrap();
    assert_eq!(totals(&ran), [JOBS as u64 - 1, 0, 1], "{ran:?}");
    assert_eq!(ran.status.code(), Some(1));
    let errors = String::from_utf8_lossy(&ran.stderr);
    assert!(errors.contains("line 701: priority"), "{errors}");
    let rest = ["--from-line", "702", "-o", "json"];
    let ran = import(&own, path).args(rest).output().unwrap();
    assert_eq!(totals(&ran), [0, JOBS as u64 - 701, 0], "{ran:?}");
    assert_eq!(ran.status.code(), Some(0));
}

#[test]
fn a_line_of_a_pipe_does_not_wait_for_the_next() {
    let own = own();
    let client = own.server.client();
    deploy(&client, "basics");
    let mut import = import(&own, "-").stdin(Stdio::piped()).spawn().unwrap();
    let mut pipe = import.stdin.take().unwrap();
    for count in 1..=2 {
        pipe.write_all(b"{\"handler\": \"noop\"}\n").unwrap();
        eventually("the job", Duration::from_secs(20), || {
            let completed = client.items("/api/v1/jobs?state=completed").len();
            (completed == count).then_some(())
        });
    }
    drop(pipe);
    assert!(import.wait().unwrap().success());
}
