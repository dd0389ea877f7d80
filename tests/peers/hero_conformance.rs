//! `host serve` against a Python client written only from the protocol document.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use host_tests::{Redis, eventually, peers};

use crate::hero_serve::{Fixture, WAIT_MAX};

/// The Python program. It is killed if the test fails before it has ended.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn all_cases_of_the_document_pass() {
    let fixture = Fixture::new(Redis::start());
    let (url, logs) = (fixture.redis.url(), fixture.path("logs"));
    let one_at_once = |worker: &str, side: &str| {
        let text = format!(
            "[protocol.hero]\nurl = {url:?}\nworker_ids = [{worker:?}]\nconcurrency = 1\n\
             pop_side = {side:?}\n"
        );
        fixture.host_of(worker, &text, &["basics"])
    };
    let _hosts = [
        fixture.host_with("data", &url, &format!("log_dir = {logs:?}")),
        one_at_once("queue", "right"),
        one_at_once("stack", "left"),
    ];
    let output = fixture.path("cases.txt");
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/hero/cases.py");
    let child = Command::new(peers::python_redis())
        .arg("-B")
        .arg(cases)
        .arg(&url)
        .arg(&logs)
        .stdin(Stdio::null())
        .stdout(File::create(&output).unwrap())
        .stderr(File::options().append(true).open(&output).unwrap())
        .spawn()
        .unwrap();
    let mut client = Client(child);
    let ended = eventually("the cases to end", WAIT_MAX, || {
        client.0.try_wait().unwrap()
    });
    let output = fs::read_to_string(output).unwrap();
    assert!(ended.success(), "{output}");
    let ran = output
        .lines()
        .filter(|line| line.starts_with("ok "))
        .count();
    assert!(ran > 20, "{output}");
}
