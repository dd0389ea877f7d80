//! Installs, starts, upgrades, removes and purges the package for Debian in a root of its own, with the
//! program that the tests use. Nothing outside of that root changes.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result, bail, ensure};

use super::{Release, empty, folder, write};
use crate::cargo::{output, run, target_dir};

/// Two versions, the second of which upgrades the first.
const VERSIONS: [&str; 2] = ["0.0.1", "0.0.2"];

/// A configuration that an operator has changed, which an upgrade must keep.
const CHANGED: &str = "# changed\ndata = \"/var/lib/host\"\n";

/// Checks the package and the tarball.
pub(crate) fn check() -> Result<()> {
    if output(Command::new("id").arg("--user"))?.trim() != "0" {
        eprintln!("installing packages needs root; skipped");
        return Ok(());
    }
    let work = empty(&target_dir().join("dist-check"))?;
    // Strip it, because debug information would be copied six times.
    let program = work.join("stripped");
    run(Command::new("strip")
        .args(["--strip-debug", "-o"])
        .args([&program, &target_dir().join("debug").join("host")]))?;
    let mut packages = Vec::new();
    for version in VERSIONS {
        let release = Release::new(program.clone(), version, work.clone())?;
        packages.push(release.debian("none")?);
    }
    let root = Root::new(&work.join("root"))?;
    root.dpkg(&["--install"], &packages[0])?;
    let host = root.path("usr/bin/host");
    for file in [
        "usr/share/man/man1/host.1.gz",
        "usr/share/man/man1/host-job-enqueue.1.gz",
        "usr/share/bash-completion/completions/host",
        "usr/share/zsh/site-functions/_host",
        "usr/share/fish/vendor_completions.d/host.fish",
        "usr/lib/systemd/system/host.service",
        "usr/share/doc/host/LICENSE",
    ] {
        ensure!(root.path(file).exists(), "the package has no {file}");
    }
    let config = root.path("etc/host/host.toml");
    write(&config, CHANGED)?;

    has_the_sdk(&host, &work)?;
    let running = Running::start(&root)?;
    let paused = ["queue", "pause", "nightly", "--create", "--server"];
    run(Command::new(&host)
        .args(paused)
        .arg(&running.url)
        .stdout(std::io::stderr()))?;
    root.dpkg(&["--install", "--force-confold"], &packages[1])?;
    running.stop()?;
    let running = Running::start(&root)?;
    let listed = ["queue", "ls", "--output", "json", "--server"];
    let queues = output(Command::new(&host).args(listed).arg(&running.url))?;
    ensure!(
        queues.contains("nightly"),
        "an upgrade keeps the store: {queues}"
    );
    let kept = std::fs::read_to_string(&config)?;
    ensure!(
        kept == CHANGED,
        "an upgrade changed the configuration: {kept}"
    );
    running.stop()?;

    root.dpkg(&["--remove"], Path::new("host"))?;
    ensure!(
        !host.exists(),
        "the program remains after its package was removed"
    );
    ensure!(config.exists(), "the configuration goes only with --purge");
    root.dpkg(&["--purge"], Path::new("host"))?;
    ensure!(!config.exists(), "the configuration remains after a purge");
    let store = root.path("var/lib/host/host.db");
    ensure!(store.exists(), "a purge removed the jobs");
    std::fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))
}

/// Checks that cargo can read the crate of a new handler after it was moved.
fn has_the_sdk(host: &Path, work: &Path) -> Result<()> {
    run(Command::new(host)
        .args(["new", "greet"])
        .current_dir(work)
        .stdout(std::io::stderr()))?;
    let moved = work.join("colleague");
    std::fs::rename(work.join("greet"), &moved).context("cannot move the new crate")?;
    let read = ["metadata", "--offline", "--format-version=1", "--quiet"];
    let metadata = output(
        Command::new("cargo")
            .args(read)
            .arg("--manifest-path")
            .arg(moved.join("Cargo.toml")),
    )?;
    let sdk = "colleague/guest-sdk/macros/Cargo.toml";
    ensure!(metadata.contains(sdk), "a new handler lacks its SDK");
    Ok(())
}

/// A folder that serves as the root of a system, with Debian's package database.
struct Root(PathBuf);

impl Root {
    fn new(path: &Path) -> Result<Self> {
        for below in ["etc", "var/lib/dpkg/info", "var/lib/dpkg/updates"] {
            folder(&path.join(below))?;
        }
        let names = "root:x:0:0:root:/root:/bin/sh\n";
        write(&path.join("etc/passwd"), names)?;
        write(&path.join("etc/group"), "root:x:0:\n")?;
        write(&path.join("etc/shadow"), "")?;
        write(&path.join("etc/gshadow"), "")?;
        write(&path.join("var/lib/dpkg/status"), "")?;
        write(&path.join("var/lib/dpkg/available"), "")?;
        Ok(Self(path.to_owned()))
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.join(below)
    }

    /// Runs dpkg on this root. Dependencies come from the machine.
    fn dpkg(&self, args: &[&str], package: &Path) -> Result<()> {
        run(Command::new("dpkg")
            .arg(format!("--root={}", self.0.display()))
            .args(["--force-script-chrootless", "--force-depends"])
            .args(args)
            .arg(package)
            .stdout(std::io::stderr()))
    }
}

/// The installed program, started by hand as its unit would, by its own user.
struct Running {
    child: Child,
    url: String,
}

impl Running {
    fn start(root: &Root) -> Result<Self> {
        let data = root.path("var/lib/host");
        let owner = data
            .metadata()
            .context("the package made no data directory")?;
        let mut child = Command::new(root.path("usr/bin/host"))
            .uid(owner.uid())
            .gid(owner.gid())
            .arg("serve")
            .arg("--config")
            .arg(root.path("etc/host/host.toml"))
            .arg("--data")
            .arg(data)
            .args(["--listen", "127.0.0.1:0", "--allow-weak", "true"])
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the installed host")?;
        let mut ready = String::new();
        let stdout = child.stdout.take().context("its output is a pipe")?;
        BufReader::new(stdout).read_line(&mut ready)?;
        let mut words = ready.split_whitespace();
        let address = words.find_map(|word| word.strip_prefix("http="));
        let Some(address) = address else {
            let ended = child.wait()?;
            bail!("the installed host is not ready: {ready:?}, {ended}");
        };
        Ok(Self {
            url: format!("http://{address}"),
            child,
        })
    }

    fn stop(mut self) -> Result<()> {
        run(Command::new("kill").arg(self.child.id().to_string()))?;
        let ended = self.child.wait()?;
        ensure!(ended.success(), "the installed host ended with {ended}");
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
