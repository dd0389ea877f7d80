//! A first handler without this repository: with the program and a language alone, in an empty root folder.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use host_tests::{Options, Server, compiled, projects};
use serde_json::{Value, json};
use tempfile::TempDir;

/// Mounts what the languages need into the root folder, and runs a command there.
const MACHINE: &str = include_str!("first_handler/machine.sh");

/// Variables that lead to a registry, if it is not the usual one.
const REGISTRY: &[&str] = &["PIP_", "npm_config_", "SSL_CERT_", "NODE_EXTRA_CA_CERTS"];

/// An address without a registry. It is tried once.
const NO_WAY: &[(&str, &str)] = &[
    ("http_proxy", "http://127.0.0.1:1/"),
    ("https_proxy", "http://127.0.0.1:1/"),
    ("npm_config_fetch_retries", "0"),
    ("PIP_RETRIES", "0"),
];

/// What is said where namespaces are not allowed. Root may always have them.
const NOT_ISOLATED: &str = "machine.sh: not isolated";

/// A machine with the program and little else.
struct Machine {
    folder: TempDir,
    /// The builders that tests share.
    cache: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Network {
    Online,
    Offline,
}

impl Machine {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let bin = folder.path().join("bin");
        fs::create_dir(&bin).unwrap();
        fs::copy(host_tests::server::host(), bin.join("host")).unwrap();
        let cache = projects::cache();
        Self { folder, cache }
    }

    /// Runs the program.
    fn host(&self, network: Network, arguments: &[&str]) -> Output {
        let (folder, home) = (self.folder.path(), self.folder.path().join("home"));
        let mut command = Command::new("sh");
        command.args(["-c", MACHINE, "machine.sh"]);
        command.arg(match network {
            Network::Online => "online",
            Network::Offline => "offline",
        });
        command.args([folder, &self.cache]);
        command.args(["/usr/bin/env", "--ignore-environment", "--chdir"]);
        command.arg(&home);
        let mut set = |name: &str, value: &str| {
            command.arg(format!("{name}={value}"));
        };
        set("PATH", &folder.join("bin").display().to_string());
        set("HOME", &home.display().to_string());
        set("XDG_CACHE_HOME", &self.cache.display().to_string());
        for (name, value) in std::env::vars() {
            if REGISTRY.iter().any(|start| name.starts_with(start)) {
                set(&name, &value);
            }
        }
        if network == Network::Offline {
            for (name, value) in NO_WAY {
                set(name, value);
            }
        }
        let output = command.arg("host").args(arguments).output().unwrap();
        let shown = String::from_utf8_lossy(&output.stderr);
        if shown.contains(NOT_ISOLATED) {
            assert!(!rustix::process::geteuid().is_root(), "{shown}");
            eprintln!("{NOT_ISOLATED}: the files of this machine are there too");
        }
        output
    }

    fn succeeds(&self, network: Network, arguments: &[&str]) -> String {
        let output = self.host(network, arguments);
        let shown = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{arguments:?}: {shown}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Returns what a command says that fails.
    fn fails(&self, network: Network, arguments: &[&str]) -> String {
        let output = self.host(network, arguments);
        let shown = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success(), "{arguments:?}: {shown}");
        shown
    }
}

fn check(lang: &str) {
    let machine = Machine::new();
    let online = |arguments: &[&str]| machine.succeeds(Network::Online, arguments);
    online(&["new", "count-words", "--lang", lang]);
    online(&["build", "count-words", "--test"]);
    // The host below deploys the component that this one compiles.
    let home = machine.folder.path().join("home");
    let dev = home.join("count-words/target/host-dev");
    fs::create_dir_all(&dev).unwrap();
    compiled::give_key(&dev);
    assert_counted(&online(&["dev", "count-words", "--once", "-o", "json"]));
    compiled::keep(&dev);
    let data = TempDir::new().unwrap();
    let server = Server::start(&Options::new(&data.path().join("data")));
    let url = format!("http://{}", server.address());
    let component = "count-words/target/count-words.wasm";
    online(&["deploy", component, "--server", &url]);
    let enqueue = [
        "job",
        "enqueue",
        "count-words",
        "--server",
        &url,
        "--params",
    ];
    let params = "@count-words/params.json";
    let job = online(&[&enqueue[..], &[params, "--wait", "-o", "json"]].concat());
    assert_counted(&job);
    let words = [&enqueue[..], &["{\"text\": 7}"]].concat();
    let refused = machine.fails(Network::Online, &words);
    assert!(
        refused.contains("/text"),
        "the path of the field: {refused}"
    );
    builds_without_a_network(machine, lang);
}

fn assert_counted(shown: &str) {
    let job: Value = serde_json::from_str(shown).unwrap();
    assert_eq!(job["result"], json!({"lines": 2, "words": 3}), "{shown}");
}

/// Builds what has changed, and another project, from what the first build left in caches.
fn builds_without_a_network(mut machine: Machine, lang: &str) {
    let offline = |arguments: &[&str]| machine.succeeds(Network::Offline, arguments);
    let component = machine
        .folder
        .path()
        .join("home/count-words/target/count-words.wasm");
    fs::remove_file(&component).unwrap();
    offline(&["build", "count-words", "--test"]);
    assert!(component.exists());
    offline(&["new", "another", "--lang", lang]);
    offline(&["build", "another", "--test"]);
    // Nothing was asked of a registry: one cannot be reached.
    machine.cache = machine.folder.path().join("cache");
    let shown = machine.fails(Network::Offline, &["build", "another"]);
    assert!(
        shown.contains("error: cannot install componentize-"),
        "{shown}"
    );
    assert!(shown.contains("a mirror of it in "), "{shown}");
    assert!(
        shown.contains("installing componentize-") && shown.contains(" MB, once)"),
        "what is installed, and how much it is: {shown}"
    );
    for program in ["node", "npm", "python3"] {
        fs::remove_file(machine.folder.path().join("bin").join(program)).unwrap();
    }
    let shown = machine.fails(Network::Online, &["build", "another"]);
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
