//! `cargo xtask dist`: makes a release in `target/dist`: a tarball with manual pages and completions, a
//! Debian package, and the program alone for the image.

mod check;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

pub(crate) use self::check::check;
use crate::cargo::{cargo, output, root, run, target_dir};
use crate::programs::PACKAGED;
use crate::progress::{Expected, step};

/// The folder with the packages' files other than the program.
const PACKAGING: &str = "packaging";

/// Where each shell finds completions, below `/usr/share`.
const COMPLETIONS: [(&str, &str); 3] = [
    ("bash", "bash-completion/completions/host"),
    ("zsh", "zsh/site-functions/_host"),
    ("fish", "fish/vendor_completions.d/host.fish"),
];

/// The documents in both packages.
const DOCUMENTS: [&str; 3] = ["README.md", "CHANGELOG.md", "LICENSE"];

/// The documentation pages for operators beside them.
const PAGES: [&str; 6] = [
    "docs/backup.md",
    "docs/config.md",
    "docs/network.md",
    "docs/operate.md",
    "docs/security-model.md",
    "docs/postgres.md",
];

/// The packages to build.
#[derive(clap::Args)]
#[command(after_help = "Example: cargo xtask dist")]
pub(crate) struct Args {
    /// The program to package; without it, it is built with the profile `packaged`
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
}

/// Makes all packages and prints their paths.
pub(crate) fn run_all(args: &Args) -> Result<()> {
    let program = match &args.program {
        Some(program) => program.clone(),
        None => step("the host, optimized", Expected::MinutesAtFirst, || {
            run(&mut cargo(&[
                "build",
                "--workspace",
                "--profile",
                PACKAGED,
                "--bin",
                "host",
            ]))?;
            Ok(target_dir().join(PACKAGED).join("host"))
        })?,
    };
    let release = Release::new(
        program,
        env!("CARGO_PKG_VERSION"),
        target_dir().join("dist"),
    )?;
    println!("{}", release.tarball()?.display());
    println!("{}", release.debian("xz")?.display());
    println!("{}", release.image()?.display());
    Ok(())
}

/// One program to package.
struct Release {
    program: PathBuf,
    version: String,
    /// The folder for packages.
    folder: PathBuf,
    /// Debian's name of this machine's architecture.
    architecture: String,
}

impl Release {
    fn new(program: PathBuf, version: &str, folder: PathBuf) -> Result<Self> {
        std::fs::create_dir_all(&folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let architecture = output(Command::new("dpkg").arg("--print-architecture"))
            .context("Debian packages are built with dpkg")?;
        Ok(Self {
            program,
            version: version.to_owned(),
            folder,
            architecture: architecture.trim().to_owned(),
        })
    }

    /// Makes the tarball, whose tree can be copied to `/usr/local`.
    fn tarball(&self) -> Result<PathBuf> {
        let name = format!("host-{}-linux-{}", self.version, self.architecture);
        let tree = empty(&self.folder.join(&name))?;
        self.install(&tree)?;
        for file in ["host.service", "host.toml", "Dockerfile", "kubernetes.yaml"] {
            let from = root().join(PACKAGING).join(file);
            copy(&from, &tree.join("share/host").join(file), 0o644)?;
        }
        let tarball = self.folder.join(format!("{name}.tar.gz"));
        run(Command::new("tar")
            .args(["--create", "--gzip", "--owner=0", "--group=0", "--file"])
            .arg(&tarball)
            .arg("--directory")
            .args([&self.folder, Path::new(&name)]))?;
        Ok(tarball)
    }

    /// Makes the package for Debian.
    fn debian(&self, compression: &str) -> Result<PathBuf> {
        let name = format!("host_{}_{}", self.version, self.architecture);
        let tree = empty(&self.folder.join(&name))?;
        self.install(&tree.join("usr"))?;
        let from = root().join(PACKAGING);
        let unit = tree.join("usr/lib/systemd/system/host.service");
        copy(&from.join("host.service"), &unit, 0o644)?;
        copy(
            &from.join("host.toml"),
            &tree.join("etc/host/host.toml"),
            0o640,
        )?;
        permit(&tree.join("etc/host"), 0o750)?;
        let control = tree.join("DEBIAN");
        for script in ["postinst", "prerm", "postrm"] {
            copy(
                &from.join("debian").join(script),
                &control.join(script),
                0o755,
            )?;
        }
        write(&control.join("conffiles"), "/etc/host/host.toml\n")?;
        let usage = output(
            Command::new("du")
                .args(["--summarize", "--block-size=1K"])
                .arg(&tree),
        )?;
        let size_kib = usage.split_whitespace().next().unwrap_or("0");
        let text = read(&from.join("debian/control"))?
            .replace("@VERSION@", &self.version)
            .replace("@ARCH@", &self.architecture)
            .replace("@SIZE@", size_kib);
        write(&control.join("control"), &text)?;
        let package = self.folder.join(format!("{name}.deb"));
        run(Command::new("dpkg-deb")
            .args(["--root-owner-group", &format!("-Z{compression}"), "--build"])
            .args([&tree, &package])
            .stdout(std::io::stderr()))?;
        Ok(package)
    }

    /// Puts the program where `packaging/Dockerfile` expects it.
    fn image(&self) -> Result<PathBuf> {
        let program = self.folder.join("host");
        copy(&self.program, &program, 0o755)?;
        Ok(program)
    }

    /// Puts the program, its manual pages, completions and documents below `prefix`.
    fn install(&self, prefix: &Path) -> Result<()> {
        let program = prefix.join("bin/host");
        copy(&self.program, &program, 0o755)?;
        let pages = prefix.join("share/man/man1");
        folder(&pages)?;
        run(Command::new(&program).arg("__man").arg(&pages))?;
        run(Command::new("gzip")
            .args(["--no-name", "--recursive", "-9"])
            .arg(&pages))?;
        for (shell, place) in COMPLETIONS {
            let script = output(Command::new(&program).args(["completion", shell]))?;
            write(&prefix.join("share").join(place), &script)?;
        }
        let documents = prefix.join("share/doc/host");
        for document in DOCUMENTS {
            copy(&root().join(document), &documents.join(document), 0o644)?;
        }
        for page in PAGES {
            copy(&root().join(page), &documents.join(page), 0o644)?;
        }
        Ok(())
    }
}

/// Makes an empty folder.
fn empty(path: &Path) -> Result<PathBuf> {
    if path.exists() {
        std::fs::remove_dir_all(path)
            .with_context(|| format!("cannot remove {}", path.display()))?;
    }
    folder(path)?;
    Ok(path.to_owned())
}

fn folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
}

fn read(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

fn write(path: &Path, text: &str) -> Result<()> {
    path.parent().map_or(Ok(()), folder)?;
    std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    permit(path, 0o644)
}

fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    to.parent().map_or(Ok(()), folder)?;
    std::fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    permit(to, mode)
}

fn permit(path: &Path, mode: u32) -> Result<()> {
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode))
        .with_context(|| format!("cannot change the mode of {}", path.display()))
}
