//! The view of cells on the host, and grants of manifests.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Command;

use host_tests::processes::{children, command};
use host_tests::reflector::Reflector;
use host_tests::server::host;
use host_tests::{Options, Server, guests};
use serde_json::json;
use tempfile::TempDir;

use crate::fixture::own;

/// Returns the lines of a file like /proc/self/status, by name.
fn status(pid: u32) -> BTreeMap<String, String> {
    let text = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let lines = text.lines().filter_map(|line| line.split_once(':'));
    lines
        .map(|(name, value)| (name.to_owned(), value.trim().to_owned()))
        .collect()
}

/// Returns whether this machine allows this user namespaces, without asking the host.
fn has_namespaces(is_root: bool) -> bool {
    let mut command = Command::new("unshare");
    if !is_root {
        command.args(["--user", "--map-root-user"]);
    }
    command.args([
        "--mount", "--net", "--ipc", "--uts", "--pid", "--fork", "true",
    ]);
    command.output().is_ok_and(|output| output.status.success())
}

#[test]
fn cells_have_nothing_of_the_host() {
    let own = own();
    let pid = own.server.pid();
    let cells: Vec<u32> = children(pid)
        .into_iter()
        .filter(|child| command(*child).contains("cell run"))
        .collect();
    assert!(!cells.is_empty());
    for cell in cells {
        assert_confined(cell, pid, &["ipc", "mnt", "net", "pid", "uts"]);
    }
}

/// Checks that a child of a host has no rights, and these namespaces of its own where the machine allows it.
pub(crate) fn assert_confined(child: u32, host: u32, spaces: &[&str]) {
    let is_root = rustix::process::geteuid().is_root();
    let has_namespaces = has_namespaces(is_root);
    let status = status(child);
    for (name, value) in [
        ("CapEff", "0000000000000000"),
        ("CapPrm", "0000000000000000"),
        ("NoNewPrivs", "1"),
        ("Seccomp", "2"),
    ] {
        assert_eq!(status[name], value, "{name}");
    }
    if is_root {
        let users = status["Uid"].split_whitespace();
        assert!(users.clone().all(|user| user == "65534"), "{status:?}");
    }
    if !has_namespaces {
        eprintln!("this machine has no namespaces for children");
        return;
    }
    let own = status["NSpid"].split_whitespace().last();
    assert_eq!(own, Some("1"), "it is alone among its processes");
    if !is_root {
        // The kernel shows others nothing more of a non-dumpable process.
        let users = |pid: u32| fs::read_to_string(format!("/proc/{pid}/uid_map")).unwrap();
        assert_ne!(users(child), users(host), "it has users of its own");
        return;
    }
    for space in spaces {
        let of = |pid: u32| fs::read_link(format!("/proc/{pid}/ns/{space}")).unwrap();
        assert_ne!(of(child), of(host), "{space}");
    }
    let files = fs::read_dir(format!("/proc/{child}/root")).unwrap().count();
    assert_eq!(files, 0);
}

/// Makes a folder with a file `etc/passwd` for a guest to read.
pub(crate) fn folder() -> TempDir {
    let folder = TempDir::new().unwrap();
    // Cells of root run as another user.
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    fs::create_dir(folder.path().join("etc")).unwrap();
    fs::write(folder.path().join("etc/passwd"), "x").unwrap();
    folder
}

/// Asks for a variable and the folder.
pub(crate) fn manifest(folder: &TempDir) -> String {
    let host = folder.path().display();
    format!(
        "[handlers.read_files]\nenv = [\"GRANTED\"]\nread_dirs = [{{ host = \"{host}\", guest = \"/\" }}]\n"
    )
}

#[test]
fn a_manifest_grants_what_the_configuration_allows_and_who_deploys_accepts() {
    let (data, folder) = (TempDir::new().unwrap(), folder());
    let hostile = fs::read(guests::component("hostile")).unwrap();
    let manifest = manifest(&folder);
    let mut options = Options::new(data.path());
    {
        let server = Server::start(&options);
        let client = server.client();
        let answer = client.deploy("hostile", &hostile, Some(&manifest)).unwrap();
        assert_eq!(answer.body["code"], "grant_missing", "{answer:?}");
    }
    options.args = vec![
        format!("--grant-read={}", folder.path().display()),
        "--grant-env=GRANTED".to_owned(),
    ];
    options.env = vec![("GRANTED".to_owned(), "yes".to_owned())];
    let server = Server::start(&options);
    let client = server.client();
    let answer = client.deploy("hostile", &hostile, Some(&manifest)).unwrap();
    assert_eq!(answer.body["code"], "grants_not_accepted", "{answer:?}");
    let detail = answer.body["detail"].as_str().unwrap();
    assert!(detail.contains("read_files: env GRANTED"), "{detail}");
    assert!(detail.contains(folder.path().to_str().unwrap()), "{detail}");
    let answer = client
        .deploy_accepted("hostile", &hostile, Some(&manifest))
        .unwrap();
    assert_eq!(answer.status, 201, "{answer:?}");
    let job = client.run(&json!({"handler": "read_files", "max_attempts": 1}));
    let seen = &job["result"];
    assert_eq!(seen["env"], json!(["GRANTED=yes"]), "{job}");
    assert_eq!(seen["paths"]["/"], json!(["listed", "looked at"]), "{job}");
    assert_eq!(
        seen["paths"]["/etc/passwd"],
        json!(["read", "looked at"]),
        "{job}"
    );
}

#[test]
fn a_host_that_would_grant_its_own_files_does_not_start() {
    let data = TempDir::new().unwrap();
    for root in [
        data.path().to_str().unwrap(),
        "/",
        "/proc/self",
        "/nowhere/at/all",
    ] {
        let output = Command::new(host())
            .args(["serve", "--listen", "off", "--grant-read", root, "--data"])
            .arg(data.path())
            .output()
            .unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{root}: {message}");
        assert!(message.contains("grants.read_roots"), "{root}: {message}");
    }
}

/// What an operator no longer allows, no handler has after the next start, although it was accepted.
#[test]
fn a_grant_that_the_configuration_takes_back_ends_what_needs_it() {
    let (data, reflector) = (TempDir::new().unwrap(), Reflector::start());
    let options = reflector.options(&data, "", "");
    let server = Server::start(&options);
    let hostile = fs::read(guests::component("hostile")).unwrap();
    let origin = reflector.origin();
    let manifest = format!(
        "[[handlers.request.http]]\nto = \"{origin}\"\nheaders = {{ x = \"{{secret:api}}\" }}\n"
    );
    let deployed = server
        .client()
        .deploy_accepted("hostile", &hostile, Some(&manifest));
    assert_eq!(deployed.unwrap().status, 201);
    let job = json!({"handler": "request", "params": {"requests": [{"url": reflector.url("/")}]}});
    assert_eq!(server.client().run(&job)["result"][0]["status"], 200);
    server.stop();
    assert_eq!(reflector.requests.try_iter().count(), 1);
    let file = data.path().join("host.toml");
    let allowed = fs::read_to_string(&file).unwrap();
    let no_secret = allowed.replace("[secrets.api]\nenv = \"API_KEY\"\n", "");
    let no_server = allowed.replace(&format!("\"{origin}\""), "");
    let mut failed = Vec::new();
    for (text, expected) in [(no_secret, "[secrets.api]"), (no_server, "grants.http")] {
        assert_ne!(text, allowed);
        fs::write(&file, text).unwrap();
        let server = Server::start(&options);
        let id = server.client().enqueue(&job);
        let job = server.client().wait(&id);
        assert_eq!(job["failure"]["kind"], "handler_not_found", "{job}");
        let message = job["failure"]["message"].as_str().unwrap();
        assert!(message.contains(expected), "{message}");
        failed.push(id);
        server.stop();
    }
    assert_eq!(reflector.requests.try_iter().count(), 0);
    // They run once it is allowed again.
    fs::write(&file, allowed).unwrap();
    let server = Server::start(&options);
    for id in failed {
        let retry = format!("/api/v1/jobs/{id}/retry");
        let retried = server.client().post(&retry, &json!({})).unwrap();
        assert_eq!(retried.status, 200, "{retried:?}");
        assert_eq!(server.client().wait(&id)["state"], "completed");
    }
}
