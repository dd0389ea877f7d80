//! The API on a local socket.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Output, Stdio};

use host_tests::server::host;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use tempfile::TempDir;

struct Host(Child);

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a host that listens only on `socket`, and returns its `ready` line.
fn start(data: &TempDir, socket: &str) -> (Host, String) {
    let mut host = Host(
        Command::new(host())
            .args(["serve", "--listen", "off", "--socket", socket, "--data"])
            .arg(data.path().join("data"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let mut ready = String::new();
    let mut lines = BufReader::new(host.0.stdout.take().unwrap());
    lines.read_line(&mut ready).unwrap();
    (host, ready)
}

fn queues(socket: &str, user: Option<u32>) -> std::io::Result<Output> {
    let mut command = Command::new(host());
    command.args(["queue", "ls", "--server", &format!("unix://{socket}")]);
    if let Some(user) = user {
        command.uid(user);
    }
    command.output()
}

#[test]
fn the_api_on_a_local_socket_is_for_its_user_alone() {
    let folder = TempDir::new().unwrap();
    let socket = folder.path().join("api.sock").display().to_string();
    let (mut host, ready) = start(&folder, &socket);
    assert_eq!(ready, format!("ready http=off socket={socket} rrq=off\n"));
    let found = std::fs::metadata(&socket).unwrap();
    assert_eq!(found.mode() & 0o777, 0o600);
    let listed = queues(&socket, None).unwrap();
    assert_eq!(listed.status.code(), Some(0), "{listed:?}");
    if geteuid().is_root() {
        std::fs::set_permissions(
            folder.path(),
            std::os::unix::fs::PermissionsExt::from_mode(0o755),
        )
        .unwrap();
        // That user may be unable to execute the program in its folder.
        if let Ok(refused) = queues(&socket, Some(65_534)) {
            let message = String::from_utf8_lossy(&refused.stderr);
            assert_eq!(refused.status.code(), Some(6), "{message}");
            assert!(message.contains("Permission denied"), "{message}");
        }
    }
    let other = TempDir::new().unwrap();
    let (_second, ready) = start(&other, &socket);
    assert_eq!(ready, "", "the socket is in use");
    let pid = Pid::from_child(&host.0);
    kill_process(pid, Signal::TERM).unwrap();
    assert!(host.0.wait().unwrap().success());
    assert!(!std::path::Path::new(&socket).exists());
    let output = queues(&socket, None).unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(
        message.contains("unix://") && message.contains("host serve"),
        "{message}"
    );
}
