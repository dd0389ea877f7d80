//! Secrets that a user passes to commands appear in no help, no error, no finding of `doctor`, and on no
//! page.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use host_tests::server::host;
use host_tests::worker::cache;
use host_tests::{Options, Server, guests, processes, secrets};
use tempfile::TempDir;

/// The planted password, token and key.
const PASSWORD: &str = secrets::VARIABLE.1;

/// Environment variables that each contain a secret, as a user may set them. Nothing listens on port 1.
fn planted() -> Vec<(String, String)> {
    let with_password = |scheme: &str| format!("{scheme}://user:{PASSWORD}@127.0.0.1:1/0");
    let pairs = [
        ("HOST_HERO_URL", with_password("redis")),
        ("HOST_STORE_URL", with_password("postgres")),
        ("HOST_DELTA_WORKER_ORCHESTRATOR", with_password("http")),
        ("HOST_ARCO_PUBLIC_URL", with_password("https")),
        ("HOST_ARCO_WORKER_CALLBACK_ORIGINS", with_password("https")),
        ("HOST_SERVER", with_password("http")),
        ("HOST_TOKEN", PASSWORD.to_owned()),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", with_password("http")),
        (
            "OTEL_EXPORTER_OTLP_HEADERS",
            format!("authorization=Bearer {PASSWORD}"),
        ),
        ("HOST_DELTA_WORKER_TOKEN_ENV", "PLANTED".to_owned()),
        ("HOST_ARCO_WORKER_SECRET_ENV", "PLANTED".to_owned()),
        ("HOST_ARCO_TOKEN_KEY_ENV", "PLANTED".to_owned()),
        ("PLANTED", PASSWORD.to_owned()),
    ];
    pairs.map(|(name, value)| (name.to_owned(), value)).to_vec()
}

fn run(folder: &Path, args: &[&str], environment: &[(String, String)]) -> Output {
    Command::new(host())
        .args(args)
        .current_dir(folder)
        .env("XDG_CACHE_HOME", cache())
        .env("XDG_STATE_HOME", folder)
        .env("RUST_BACKTRACE", "1")
        .envs(environment.iter().cloned())
        .stdin(Stdio::null())
        .output()
        .unwrap()
}

fn assert_silent(what: &str, output: &Output) {
    for (name, text) in [("stdout", &output.stdout), ("stderr", &output.stderr)] {
        let shown = String::from_utf8_lossy(text);
        assert!(!secrets::has_secret(text), "{what}: {name}: {shown}");
    }
}

#[test]
fn help_shows_no_secret_of_the_environment() {
    let folder = TempDir::new().unwrap();
    for command in [
        &["--help"][..],
        &["serve", "--help"],
        &["doctor", "--help"],
        &["store", "migrate", "--help"],
        &["job", "ls", "--help"],
        &["worker", "rrq", "--help"],
        &["worker", "hero", "--help"],
        &["worker", "delta", "--help"],
        &["worker", "arco", "--help"],
        &["worker", "beads", "--help"],
    ] {
        let output = run(folder.path(), command, &planted());
        assert_eq!(output.status.code(), Some(0), "{command:?}");
        assert!(!output.stdout.is_empty(), "{command:?}");
        assert_silent(&command.join(" "), &output);
    }
}

#[test]
fn errors_and_findings_show_no_secret() {
    let folder = TempDir::new().unwrap();
    let handlers = guests::folder().display().to_string();
    // Also each variable alone, because after the first refusal the others are not read.
    let mut environments: Vec<_> = planted().into_iter().map(|pair| vec![pair]).collect();
    environments.push(planted());
    // On another machine: a password is not sent there in plain text.
    let url = format!("redis://user:{PASSWORD}@192.0.2.1/0");
    let server = format!("http://user:{PASSWORD}@127.0.0.1:1");
    let ftp = format!("ftp://user:{PASSWORD}@127.0.0.1:1");
    let delta = |orchestrator| {
        let words = [
            "worker",
            "delta",
            "--handlers",
            &handlers,
            "--runner-id",
            "r",
        ];
        words
            .into_iter()
            .chain(["--orchestrator", orchestrator])
            .collect::<Vec<_>>()
    };
    for environment in &environments {
        for command in [
            &["doctor"][..],
            &["doctor", "-o", "json"],
            &["job", "ls"],
            &["token", "ls"],
            &["context", "ls"],
            &["store", "status"],
        ] {
            let output = run(folder.path(), command, environment);
            assert_silent(&format!("{command:?} with {:?}", environment[0].0), &output);
        }
    }
    for command in [
        &["job", "ls", "--server", &server][..],
        &[
            "serve",
            "--data",
            "d",
            "--listen",
            "127.0.0.1:0",
            "--store",
            &url,
        ],
        &[
            "worker",
            "hero",
            "--handlers",
            &handlers,
            "--worker-id",
            "w",
            "--url",
            &url,
        ],
        &delta(&ftp)[..],
        &delta(&server)[..],
        &[
            "worker",
            "arco",
            "--handlers",
            &handlers,
            "--secret-env",
            "PLANTED",
            "--callback-origin",
            &ftp,
        ],
    ] {
        let output = run(folder.path(), command, &[]);
        assert_ne!(output.status.code(), Some(0), "{command:?}");
        assert!(!output.stderr.is_empty(), "{command:?}");
        assert_silent(command[..2].join(" ").as_str(), &output);
    }
    assert_eq!(secrets::found_in(folder.path()), None);
}

/// What the host shows about an unreachable Redis and a collector has no password. The search runs when the
/// host ends.
#[test]
fn pages_and_files_of_a_host_show_no_secret() {
    let folder = TempDir::new().unwrap();
    let mut options = Options::new(&folder.path().join("data"));
    let given = ["HOST_HERO_URL", "OTEL_EXPORTER_OTLP_HEADERS"];
    options.env = planted();
    options
        .env
        .retain(|(name, _)| given.contains(&name.as_str()));
    let collector = "http://127.0.0.1:1".to_owned();
    options
        .env
        .push(("OTEL_EXPORTER_OTLP_ENDPOINT".to_owned(), collector));
    let server = Server::start(&options);
    assert_eq!(server.client().get("/readyz").unwrap().status, 200);
    drop(server);
}

/// A user that owns nothing.
const NOBODY_UID: u32 = 65_534;

/// A host that may not start threads panics as soon as it has read its configuration.
#[test]
fn a_panic_shows_no_secret() {
    let folder = TempDir::new().unwrap();
    std::fs::set_permissions(folder.path(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new("prlimit");
    command.args(["--nproc=0", "--core=unlimited"]).arg(host());
    command.args(["serve", "--data", "d", "--listen", "127.0.0.1:0"]);
    let environment = planted().into_iter();
    let read = environment.filter(|(name, _)| name == "HOST_HERO_URL" || name == "PLANTED");
    command
        .current_dir(folder.path())
        .env("RUST_BACKTRACE", "full")
        .envs(read)
        .stdin(Stdio::null());
    if rustix::process::geteuid().is_root() {
        // The limit does not apply to root.
        command.uid(NOBODY_UID).gid(NOBODY_UID);
    }
    let output = command.output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    if message.contains("Permission denied") {
        eprintln!("the program is where only root can read it: {message}");
        return;
    }
    assert!(message.contains("panicked at"), "{message}");
    assert_silent("a panic", &output);
    assert_eq!(secrets::found_in(folder.path()), None);
}

/// The kernel writes no memory of a host's processes to a file, and passes the host's memory to no crash
/// collector: a limit of 1 forbids both, 0 only the file. Children are not dumpable.
#[test]
fn a_crash_leaves_no_memory_in_a_file() {
    let own = crate::fixture::own();
    let pid = own.server.pid();
    for process in processes::children(pid).into_iter().chain([pid]) {
        let limits = std::fs::read_to_string(format!("/proc/{process}/limits")).unwrap();
        let core: Vec<_> = limits
            .lines()
            .find(|line| line.starts_with("Max core file size"))
            .unwrap()
            .split_whitespace()
            .collect();
        let most = if process == pid { "1" } else { "0" };
        assert_eq!(core[4..6], [most, most], "{process}");
    }
}
