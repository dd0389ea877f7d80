//! A first handler without this repository: with the program and a language alone, in an empty folder.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, Output};

use host_tests::{Options, Server, projects};
use tempfile::TempDir;

/// The programs of a machine that has only the languages, and what finds each. npm needs `env` and `sh`. What is called
/// `python3` may be a script that chooses one.
const PROGRAMS: &[(&str, &str)] = &[
    ("env", "command -v env"),
    ("node", "command -v node"),
    ("npm", "command -v npm"),
    ("python3", "python3 -c 'import sys; print(sys.executable)'"),
    ("sh", "command -v sh"),
];

/// Variables that lead to a registry, if it is not the usual one.
const REGISTRY: &[&str] = &["PIP_", "npm_config_", "SSL_CERT_", "NODE_EXTRA_CA_CERTS"];

/// A machine with the program and little else.
struct Machine {
    root: TempDir,
}

impl Machine {
    fn new() -> Self {
        let root = TempDir::new().unwrap();
        let bin = root.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::copy(host_tests::server::host(), bin.join("host")).unwrap();
        for (program, finds) in PROGRAMS {
            let found = Command::new("sh").args(["-c", finds]).output();
            let found = String::from_utf8(found.unwrap().stdout).unwrap();
            symlink(found.trim(), bin.join(program)).unwrap();
        }
        Self { root }
    }

    /// Runs the program. Its output must not be that of a failure unless one is expected.
    fn host(&self, arguments: &[&str]) -> Output {
        let root = self.root.path();
        let mut command = Command::new(root.join("bin/host"));
        command.args(arguments).current_dir(root).env_clear();
        command.env("PATH", root.join("bin")).env("HOME", root);
        command.env("XDG_CACHE_HOME", projects::cache());
        command.envs(std::env::vars().filter(|(name, _)| {
            let mut known = REGISTRY.iter();
            known.any(|start| name.starts_with(start))
        }));
        command.output().unwrap()
    }

    fn succeeds(&self, arguments: &[&str]) -> String {
        let output = self.host(arguments);
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {shown}");
        String::from_utf8(output.stdout).unwrap()
    }
}

fn check(lang: &str) {
    let (machine, data) = (Machine::new(), TempDir::new().unwrap());
    machine.succeeds(&["new", "count-words", "--lang", lang]);
    machine.succeeds(&["build", "count-words", "--test"]);
    let server = Server::start(&Options::new(&data.path().join("data")));
    let url = format!("http://{}", server.address());
    let component = "count-words/target/count-words.wasm";
    machine.succeeds(&["deploy", component, "--server", &url]);
    let enqueue = [
        "job",
        "enqueue",
        "count-words",
        "--server",
        &url,
        "--params",
    ];
    let params = "@count-words/params.json";
    let result = machine.succeeds(&[&enqueue[..], &[params, "--wait", "-o", "json"]].concat());
    let job: serde_json::Value = serde_json::from_str(&result).unwrap();
    let counted = serde_json::json!({"lines": 2, "words": 3});
    assert_eq!(job["result"], counted, "{result}");
    let refused = machine.host(&[&enqueue[..], &["{\"text\": 7}"]].concat());
    assert!(!refused.status.success());
    let shown = String::from_utf8(refused.stderr).unwrap();
    assert!(shown.contains("/text"), "the path of the field: {shown}");
    fails_without_its_language(&machine.root.path().join("bin"), &machine);
}

/// Says what to install.
fn fails_without_its_language(bin: &Path, machine: &Machine) {
    for program in ["node", "npm", "python3"] {
        fs::remove_file(bin.join(program)).unwrap();
    }
    let built = machine.host(&["build", "count-words"]);
    let shown = String::from_utf8(built.stderr).unwrap();
    assert!(shown.contains("hint: install "), "{shown}");
}

#[test]
fn in_javascript() {
    check("js");
}

#[test]
fn in_typescript() {
    check("ts");
}

#[test]
fn in_python() {
    check("python");
}
