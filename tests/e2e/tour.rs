//! The README's tour and its first handler, word for word, `host dev` and `host up`. Only the host itself is not built
//! again: a stand-in replaces `cargo build` and `cargo xtask`.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use host_tests::server::host;
use host_tests::{Client, eventually, guests, ports};
use rustix::process::{Pid, Signal, kill_process_group};

const README: &str = include_str!("../../README.md");

/// The stand-in for cargo: skips what builds the host and passes on the rest.
const CARGO: &str = "#!/bin/sh
case \"$*\" in
  'build --release --bin host' | 'xtask guests') ;;
  *) exec \"$REAL_CARGO\" \"$@\" ;;
esac
";

/// Returns the shell blocks of a section of the README.
fn blocks(section: &str) -> Vec<&'static str> {
    let start = README.find(&format!("## {section}\n")).unwrap();
    let rest = &README[start + 3..];
    let body = &rest[..rest.find("\n## ").unwrap_or(rest.len())];
    let fenced = body.split("```").skip(1).step_by(2);
    fenced
        .filter_map(|block| block.strip_prefix("sh\n"))
        .collect()
}

/// A folder that looks like a checkout after the build, and its host's address.
struct Checkout {
    dir: PathBuf,
    address: String,
}

impl Checkout {
    /// Makes the folder. Build output of the new crate is kept, to build it faster; jobs of an earlier run are not.
    fn new() -> Self {
        let dir = guests::folder().with_file_name("tour");
        let kept = dir.join("word-count/target");
        let aside = dir.with_file_name("tour-target");
        if kept.exists() && !aside.exists() {
            fs::rename(&kept, &aside).unwrap();
        }
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(dir.join("target/release")).unwrap();
        fs::create_dir_all(dir.join("bin")).unwrap();
        fs::create_dir_all(dir.join("word-count")).unwrap();
        if aside.exists() {
            fs::rename(&aside, &kept).unwrap();
            let _ = fs::remove_dir_all(kept.join("host-dev"));
        }
        // The versions of this repository, so that the test does not change with the registry.
        let lock = Path::new(env!("CARGO_MANIFEST_DIR")).join("../Cargo.lock");
        fs::copy(lock, dir.join("word-count/Cargo.lock")).unwrap();
        let binary = dir.join("target/release/host");
        if fs::hard_link(host(), &binary).is_err() {
            fs::copy(host(), &binary).unwrap();
        }
        symlink(guests::folder(), dir.join("target/guests")).unwrap();
        let cargo = dir.join("bin/cargo");
        fs::write(&cargo, CARGO).unwrap();
        fs::set_permissions(&cargo, fs::Permissions::from_mode(0o755)).unwrap();
        let address = format!("127.0.0.1:{}", ports::free(1));
        Self { dir, address }
    }

    /// Makes a terminal with its own shell that runs `text` and stops at the first error.
    fn terminal(&self, text: &str) -> Command {
        let text = text.replace("127.0.0.1:7700", &self.address);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let bin = std::iter::once(self.dir.join("bin")).chain(std::env::split_paths(&path));
        let mut shell = Command::new("bash");
        shell
            .args(["-euo", "pipefail", "-c", &text])
            .current_dir(&self.dir)
            .env("PATH", std::env::join_paths(bin).unwrap())
            .env("REAL_CARGO", env!("CARGO"))
            .env("HOST_HTTP_LISTEN", &self.address)
            .env("HOST_SERVER", format!("http://{}", self.address))
            .env("XDG_CACHE_HOME", self.dir.join("cache"))
            .env_remove("CARGO_TARGET_DIR")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0);
        shell
    }

    fn run(&self, text: &str) -> Output {
        let ran = self.terminal(text).output().unwrap();
        let err = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "{text}\n{}\n{err}", out(&ran));
        ran
    }
}

fn out(ran: &Output) -> String {
    String::from_utf8_lossy(&ran.stdout).into_owned()
}

/// A shell and everything it started. Ended when dropped.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = kill_process_group(Pid::from_child(&self.0), Signal::TERM);
        let _ = self.0.wait();
    }
}

#[test]
fn a_person_with_the_readme_runs_jobs_and_deploys_a_handler() {
    let checkout = Checkout::new();
    let tour = blocks("A tour in 60 seconds");
    let [build_and_serve, commands, over_http] = tour[..] else {
        panic!("the tour has other blocks: {tour:#?}");
    };
    let mut serve = checkout.terminal(build_and_serve);
    serve.stdout(Stdio::null()).stderr(Stdio::null());
    let serving = Running(serve.spawn().unwrap());
    let client = Client::new(&checkout.address);
    eventually("the host of the tour", Duration::from_secs(30), || {
        client.get("/readyz").ok().filter(|it| it.status == 200)
    });

    let ran = out(&checkout.run(&format!("{commands}\n{over_http}")));
    for seen in [
        "handlers",
        "\"a\": 1",
        "spin",
        "cancelled",
        "\"b\": 2",
        "\"state\":\"available\"",
    ] {
        assert!(ran.contains(seen), "{seen} is not in:\n{ran}");
    }

    let [first] = blocks("Your first handler")[..] else {
        panic!("the first handler has other blocks");
    };
    let path = "export PATH=$PWD/target/release:$PATH\n";
    let ran = out(&checkout.run(&format!("{path}{first}")));
    assert!(ran.contains("\"words\": 2"), "{ran}");
    let component = fs::read(checkout.dir.join("word-count/target/word-count.wasm")).unwrap();
    // As the compiler writes it.
    let function = b"10word_count10word_count";
    let mut parts = component.windows(function.len());
    assert!(
        parts.any(|it| it == function),
        "traces need names of functions"
    );
    let flaky = "host job enqueue flaky --params '{\"fail_times\": 2}' --wait";
    let waited = checkout.run(&format!("{path}{flaky}"));
    let said = String::from_utf8_lossy(&waited.stderr);
    for failed in [
        "attempt 1 failed: user_error: attempt 1 of 2 that fail",
        "attempt 2 failed: ",
    ] {
        assert!(said.contains(failed), "{failed} is not in:\n{said}");
    }
    drop(serving);
    dev(&checkout);
    up(&checkout);
}

/// Reads the output of `host dev` until a line has `word`, and returns that line.
fn line_with(lines: &mut impl Iterator<Item = std::io::Result<String>>, word: &str) -> String {
    let found = lines.find(|line| line.as_ref().unwrap().contains(word));
    found.unwrap().unwrap()
}

fn dev(checkout: &Checkout) {
    let path = "export PATH=$PWD/target/release:$PATH\n";
    let once = checkout.run(&format!("{path}host dev word-count --once"));
    assert!(out(&once).contains("\"words\": 3"), "{}", out(&once));

    let mut shell = checkout.terminal(&format!("{path}exec host dev word-count"));
    shell.stdout(Stdio::null());
    let mut running = Running(shell.spawn().unwrap());
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines();
    let first = line_with(&mut lines, "fuel ");
    assert!(first.contains("memory") && !first.contains('%'), "{first}");
    line_with(&mut lines, "waiting for a change");
    let params = checkout.dir.join("word-count/params.json");
    fs::write(
        &params,
        format!("{{\"text\": \"{}\"}}", "word ".repeat(1_000)),
    )
    .unwrap();
    let second = line_with(&mut lines, "fuel ");
    assert!(
        second.contains("fuel ") && second.contains(" %)"),
        "{second}"
    );
    line_with(&mut lines, "waiting for a change");
    fs::write(&params, r#"{"text": ""}"#).unwrap();
    let failed = line_with(&mut lines, "discarded");
    assert!(failed.contains("there is nothing to count"), "{failed}");
    assert!(failed.contains("attempt 1/1"), "{failed}");
    line_with(&mut lines, "category: DATA_QUALITY");
    let again = line_with(&mut lines, "runs it again");
    assert!(
        again.contains("`host job enqueue word-count --params @"),
        "{again}"
    );
    line_with(&mut lines, "waiting for a change");

    // A change ends the job that runs the old code.
    let file = checkout.dir.join("word-count/src/lib.rs");
    let text = fs::read_to_string(&file).unwrap();
    let endless = "loop {\n        std::hint::black_box(());\n    }\n    let mut";
    fs::write(&params, r#"{"text": "one"}"#).unwrap();
    line_with(&mut lines, "waiting for a change");
    fs::write(&file, text.replacen("let mut", endless, 1)).unwrap();
    line_with(&mut lines, "built in");
    fs::write(&file, text).unwrap();
    line_with(&mut lines, "the project has changed");
    let completed = line_with(&mut lines, "completed");
    assert!(completed.contains("attempt 1/1"), "{completed}");
    line_with(&mut lines, "waiting for a change");
    kill_process_group(Pid::from_child(&running.0), Signal::INT).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}

/// `host up` deploys the projects of a folder, and one that has changed again.
fn up(checkout: &Checkout) {
    let path = "export PATH=$PWD/target/release:$PATH\n";
    let mut shell = checkout.terminal(&format!("{path}exec host up ."));
    shell.stdout(Stdio::null());
    let mut running = Running(shell.spawn().unwrap());
    let mut lines = BufReader::new(running.0.stderr.take().unwrap()).lines();
    line_with(&mut lines, "word-count is deployed: word-count");
    line_with(&mut lines, "waiting for a change");
    let enqueue = "host job enqueue word-count --params '{\"text\": \"one\"}' --wait";
    let ran = out(&checkout.run(&format!("{path}{enqueue}")));
    assert!(ran.contains("\"words\": 1"), "{ran}");
    let manifest = checkout.dir.join("word-count/word-count.toml");
    let text = fs::read_to_string(&manifest).unwrap();
    fs::write(
        &manifest,
        text.replace("timeout_seconds = 10", "timeout_seconds = 7"),
    )
    .unwrap();
    line_with(&mut lines, "word-count is deployed: word-count");
    let shown = out(&checkout.run(&format!("{path}host handler show word-count -o json")));
    assert!(shown.contains("\"timeout_ms\": 7000"), "{shown}");
    kill_process_group(Pid::from_child(&running.0), Signal::INT).unwrap();
    assert_eq!(running.0.wait().unwrap().code(), Some(0));
}
