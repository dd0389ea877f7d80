//! `host serve` against a client in Python that only knows the document.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use host_tests::{Redis, eventually, peers};

use crate::hero_serve::{PATIENCE, Scene};

/// Ends the program if the test fails before it has ended.
struct Client(Child);

impl Drop for Client {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn each_case_of_the_document_holds() {
    let scene = Scene::new(Redis::start());
    let (url, logs) = (scene.redis.url(), scene.path("logs"));
    let one_at_once = |worker: &str, side: &str| {
        let text = format!(
            "[protocol.hero]\nurl = {url:?}\nworker_ids = [{worker:?}]\nconcurrency = 1\n\
             pop_side = {side:?}\n"
        );
        scene.host_of(worker, &text, &["basics"])
    };
    let _hosts = [
        scene.host_with("data", &url, &format!("log_dir = {logs:?}")),
        one_at_once("queue", "right"),
        one_at_once("stack", "left"),
    ];
    let said = scene.path("cases.txt");
    let cases = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers/hero/cases.py");
    let child = Command::new(peers::python_redis())
        .arg("-B")
        .arg(cases)
        .arg(&url)
        .arg(&logs)
        .stdin(Stdio::null())
        .stdout(File::create(&said).unwrap())
        .stderr(File::options().append(true).open(&said).unwrap())
        .spawn()
        .unwrap();
    let mut client = Client(child);
    let ended = eventually("the cases to end", PATIENCE, || {
        client.0.try_wait().unwrap()
    });
    let said = fs::read_to_string(said).unwrap();
    assert!(ended.success(), "{said}");
    let ran = said.lines().filter(|line| line.starts_with("ok ")).count();
    assert!(ran > 20, "{said}");
}
