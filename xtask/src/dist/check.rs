//! Makes the packages twice, with the program that the tests use, and compares them. Then it installs each in a root, an
//! environment or a folder of its own and takes the tour there. Nothing outside of these changes.

use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::files::{empty, folder, names, sha256, write};
use super::{Effort, Release, tour};
use crate::cargo::{output, run, target_dir};

/// A later version, which upgrades this one.
const NEWER: &str = "9.0.0";

/// A configuration that an operator has changed, which an upgrade must keep.
const CHANGED: &str = "# changed\ndata = \"/var/lib/host\"\n";

/// Checks the packages.
pub(crate) fn check() -> Result<()> {
    if output(Command::new("id").arg("--user"))?.trim() != "0" {
        eprintln!("installing packages needs root; skipped");
        return Ok(());
    }
    let work = empty(&target_dir().join("dist-check"))?;
    let program = target_dir().join("debug").join("host");
    let pack = |name: &str, version: &str| {
        let release = Release::new(&program, version, work.join(name), Effort::Quick)?;
        release.pack()?;
        let sums = std::fs::read_to_string(release.sum(&[])?)?;
        Ok::<_, anyhow::Error>((release, sums))
    };
    let own = env!("CARGO_PKG_VERSION");
    let ((release, sums), (_, again)) = both(|| pack("first", own), || pack("again", own))?;
    ensure!(
        sums == again,
        "the same program and commit made other packages:\n{sums}{again}"
    );
    both(
        || is_upgraded(&release, &work),
        || both(|| by_pip(&release, &work), || by_npm(&release, &work)),
    )?;
    by_image(&release, &work)?;
    std::fs::remove_dir_all(&work).with_context(|| format!("cannot remove {}", work.display()))
}

/// Does two things side by side.
fn both<A: Send, B: Send>(
    first: impl FnOnce() -> Result<A> + Send,
    second: impl FnOnce() -> Result<B> + Send,
) -> Result<(A, B)> {
    thread::scope(|scope| {
        let aside = scope.spawn(second);
        let first = first();
        let second = match aside.join() {
            Ok(second) => second,
            Err(panic) => std::panic::resume_unwind(panic),
        };
        Ok((first?, second?))
    })
}

/// Installs, upgrades, removes and purges the package for Debian.
fn is_upgraded(release: &Release, work: &Path) -> Result<()> {
    let program = target_dir().join("debug").join("host");
    let newer = Release::new(&program, NEWER, work.join("newer"), Effort::Quick)?;
    newer.debian()?;
    let root = Root::new(&work.join("root"))?;
    root.dpkg(&["--install"], &release.file(".deb")?)?;
    let host = root.path("usr/bin/host");
    for file in [
        "usr/share/man/man1/host.1.gz",
        "usr/share/man/man1/host-job-enqueue.1.gz",
        "usr/share/bash-completion/completions/host",
        "usr/share/zsh/site-functions/_host",
        "usr/share/fish/vendor_completions.d/host.fish",
        "usr/share/doc/host/LICENSE",
    ] {
        ensure!(root.path(file).exists(), "the package has no {file}");
    }
    is_a_unit(&root)?;
    let config = root.path("etc/host/host.toml");
    write(&config, CHANGED)?;
    tour::take(Command::new(&host), &root.path("usr/bin"), &release.version)?;

    has_the_sdk(&host, work)?;
    let running = Running::start(&root)?;
    let paused = ["queue", "pause", "nightly", "--create", "--server"];
    run(Command::new(&host)
        .args(paused)
        .arg(&running.url)
        .stdout(std::io::stderr()))?;
    root.dpkg(&["--install", "--force-confold"], &newer.file(".deb")?)?;
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
    Ok(())
}

/// Checks the installed unit, if this machine has systemd.
fn is_a_unit(root: &Root) -> Result<()> {
    let unit = root.path("usr/lib/systemd/system/host.service");
    let text = std::fs::read_to_string(unit).context("the package has no unit")?;
    if output(Command::new("systemd-analyze").arg("--version")).is_err() {
        eprintln!("this machine has no systemd; its unit is not checked");
        return Ok(());
    }
    // The program is not where the unit has it.
    let program = root.path("usr/bin/host").display().to_string();
    let copy = root.path("host.service");
    write(&copy, &text.replace("/usr/bin/host", &program))?;
    run(Command::new("systemd-analyze")
        .args(["verify", "--recursive-errors=no"])
        .arg(&copy))
}

/// Installs the wheels in an environment without a network.
fn by_pip(release: &Release, work: &Path) -> Result<()> {
    let venv = work.join("venv");
    run(Command::new("python3").args(["-m", "venv"]).arg(&venv))?;
    let bin = venv.join("bin");
    run(Command::new(bin.join("pip"))
        .args([
            "install",
            "--quiet",
            "--no-index",
            "--no-deps",
            "--find-links",
        ])
        .arg(&release.folder)
        .args(["host-jobs-cli", "host-jobs-client", "host-jobs"])
        .stdout(std::io::stderr()))?;
    let imports = "import host_jobs, host_jobs_client";
    run(Command::new(bin.join("python")).args(["-c", imports]))?;
    // As `uvx` and `pipx run` start it.
    tour::take(
        Command::new(bin.join("host-jobs-cli")),
        &bin,
        &release.version,
    )
}

/// Installs the packages of npm in a folder without a network.
fn by_npm(release: &Release, work: &Path) -> Result<()> {
    let folder = empty(&work.join("npm"))?;
    write(&folder.join("package.json"), "{\"private\": true}\n")?;
    let mut install = Command::new("npm");
    install.current_dir(&folder).args([
        "install",
        "--offline",
        "--no-audit",
        "--no-fund",
        "--silent",
    ]);
    for name in names(&release.folder)? {
        let is_package = Path::new(&name).extension().is_some_and(|it| it == "tgz");
        if is_package && !name.starts_with("host-chart") {
            install.arg(release.folder.join(name));
        }
    }
    run(install.stdout(std::io::stderr()))?;
    let bin = folder.join("node_modules/.bin");
    tour::take(Command::new(bin.join("host")), &bin, &release.version)
}

/// Serves from the files of the image alone, as its user, in namespaces of its own.
fn by_image(release: &Release, work: &Path) -> Result<()> {
    let (layout, root) = (empty(&work.join("layout"))?, empty(&work.join("image"))?);
    run(Command::new("tar")
        .args(["--extract", "--file"])
        .arg(release.file(".tar")?)
        .arg("--directory")
        .arg(&layout))?;
    let json = |path: &Path| -> Result<Value> {
        Ok(serde_json::from_str(&std::fs::read_to_string(path)?)?)
    };
    let blob = |described: &Value| -> Result<PathBuf> {
        let digest = described["digest"]
            .as_str()
            .context("a blob has a digest")?;
        let file = layout.join("blobs").join(digest.replace(':', "/"));
        ensure!(format!("sha256:{}", sha256(&file)?) == digest, "{digest}");
        Ok(file)
    };
    let manifest = json(&blob(&json(&layout.join("index.json"))?["manifests"][0])?)?;
    let config = json(&blob(&manifest["config"])?)?;
    let user = config["config"]["User"].as_str().context("a user")?;
    run(Command::new("tar")
        .args(["--extract", "--gzip", "--file"])
        .arg(blob(&manifest["layers"][0])?)
        .arg("--directory")
        .arg(&root))?;
    let alone = ["--mount", "--pid", "--fork", "--kill-child"];
    if output(Command::new("unshare").args(alone).arg("true")).is_err() {
        eprintln!("this system allows no namespaces; the image is unpacked, but not run");
        return Ok(());
    }
    let mut serve = Command::new("unshare");
    serve
        .args(alone)
        .args(["sh", "-euc"])
        .arg(IN_IMAGE)
        .arg("sh")
        .args([&root, Path::new(user)])
        .env("HOST_DATA", "/var/lib/host");
    tour::take(serve, &root.join("usr/bin"), &release.version)
}

/// Mounts what a container has, and starts the program of the image with further arguments.
const IN_IMAGE: &str = r#"
root=$1 user=$2
shift 2
mkdir -p "$root/proc" "$root/dev" "$root/tmp" "$root/sys"
chmod 1777 "$root/tmp"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
exec chroot --userspec="$user" "$root" /usr/bin/host "$@"
"#;

impl Release {
    /// Returns the package that ends so.
    fn file(&self, ending: &str) -> Result<PathBuf> {
        let all = names(&self.folder)?;
        let mut names = all.iter();
        let name = names
            .find(|name| name.ends_with(ending))
            .with_context(|| format!("there is no package {ending}"))?;
        Ok(self.folder.join(name))
    }
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
