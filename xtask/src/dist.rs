//! `cargo xtask dist`: makes a release in `target/dist`: packages for each way to install `host`, and those of the clients and
//! SDKs, with their checksums. The same commit and program make the same bytes.

mod check;
mod files;
mod image;
mod packages;
mod sbom;
mod tour;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use minisign::SecretKeyBox;
use rustix::fs::Mode;

pub(crate) use self::check::check;
use self::files::{copy, empty, folder, permit, read, write};
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

/// The documents in the tarball and the Debian package.
const DOCUMENTS: [&str; 3] = ["README.md", "CHANGELOG.md", "LICENSE"];

/// What operators read and use beside them.
const PAGES: [&str; 9] = [
    "docs/backup.md",
    "docs/config.md",
    "docs/guides/incidents.md",
    "docs/network.md",
    "docs/operate.md",
    "docs/security-model.md",
    "docs/postgres.md",
    "packaging/grafana-dashboard.json",
    "packaging/prometheus-rules.yaml",
];

/// The file with the checksums.
const SUMS: &str = "SHA256SUMS";

/// The packages to build.
#[derive(clap::Args)]
#[command(after_help = "Example: cargo xtask dist --sign-key release.key")]
pub(crate) struct Args {
    /// The program to package; without it, it is built with the profile `packaged`
    #[arg(long, value_name = "PATH")]
    program: Option<PathBuf>,
    /// Sign the checksums with this secret key of minisign; its password, if it has one, is read from `MINISIGN_PASSWORD`
    #[arg(long, value_name = "FILE")]
    sign_key: Option<PathBuf>,
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
    let folder = empty(&target_dir().join("dist"))?;
    let release = Release::new(&program, env!("CARGO_PKG_VERSION"), folder, Effort::Full)?;
    release.pack()?;
    let crates = packages::crates()?;
    let sums = release.sum(&crates)?;
    if let Some(key) = &args.sign_key {
        sign(&sums, key, std::env::var("MINISIGN_PASSWORD").ok())?;
    }
    println!("{}", release.folder.display());
    Ok(())
}

/// How much time packing may take.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Effort {
    Full,
    /// For tests, which pack a large program.
    Quick,
}

/// One program to package.
struct Release {
    /// The program, without symbols.
    program: PathBuf,
    version: String,
    /// The folder for packages.
    folder: PathBuf,
    /// The folder for what goes into packages.
    trees: PathBuf,
    /// Debian's name of this machine's architecture.
    architecture: String,
    /// The time of all files, in seconds since 1970.
    epoch: String,
    effort: Effort,
}

impl Release {
    fn new(program: &Path, version: &str, into: PathBuf, effort: Effort) -> Result<Self> {
        rustix::process::umask(Mode::WGRP | Mode::WOTH);
        let trees = empty(&into.join("trees"))?;
        let architecture = output(Command::new("dpkg").arg("--print-architecture"))
            .context("Debian packages are built with dpkg")?;
        let stripped = trees.join("host");
        run(Command::new("strip").arg("-o").args([&stripped, program]))?;
        Ok(Self {
            program: stripped,
            version: version.to_owned(),
            folder: into,
            trees,
            architecture: architecture.trim().to_owned(),
            epoch: epoch()?,
            effort,
        })
    }

    /// Makes all packages of this program, and those that have no program.
    fn pack(&self) -> Result<()> {
        self.tarball()?;
        self.debian()?;
        self.wheels()?;
        self.npm()?;
        self.image()?;
        self.chart()?;
        self.sbom()
    }

    /// Returns the level of compression.
    const fn level(&self) -> &'static str {
        match self.effort {
            Effort::Full => "9",
            Effort::Quick => "1",
        }
    }

    /// Makes the tarball, whose tree can be copied to `/usr/local`.
    fn tarball(&self) -> Result<()> {
        let name = format!("host-{}-linux-{}", self.version, self.architecture);
        let tree = empty(&self.trees.join(&name))?;
        self.install(&tree)?;
        for file in [
            "host.service",
            "host.toml",
            "kubernetes.yaml",
            "compose.yaml",
        ] {
            let from = root().join(PACKAGING).join(file);
            copy(&from, &tree.join("share/host").join(file), 0o644)?;
        }
        self.archive(&format!("{name}.tar.gz"), &self.trees, &name)
    }

    /// Makes the package for Debian.
    fn debian(&self) -> Result<()> {
        let name = format!("host_{}_{}", self.version, self.architecture);
        let tree = empty(&self.trees.join(&name))?;
        self.install(&tree.join("usr"))?;
        let from = root().join(PACKAGING);
        let unit = tree.join("usr/lib/systemd/system/host.service");
        copy(&from.join("host.service"), &unit, 0o644)?;
        let config = tree.join("etc/host/host.toml");
        copy(&from.join("host.toml"), &config, 0o640)?;
        permit(&tree.join("etc/host"), 0o750)?;
        let control = tree.join("DEBIAN");
        for script in ["postinst", "prerm", "postrm"] {
            let script_from = from.join("debian").join(script);
            copy(&script_from, &control.join(script), 0o755)?;
        }
        write(&control.join("conffiles"), "/etc/host/host.toml\n")?;
        let usage = output(
            Command::new("du")
                .args(["--summarize", "--apparent-size", "--block-size=1K"])
                .arg(&tree),
        )?;
        let size_kib = usage.split_whitespace().next().unwrap_or("0");
        let text = self
            .filled(&from.join("debian/control"))?
            .replace("@SIZE@", size_kib);
        write(&control.join("control"), &text)?;
        let compression = match self.effort {
            Effort::Full => "-Zxz",
            Effort::Quick => "-Znone",
        };
        run(Command::new("dpkg-deb")
            .env("SOURCE_DATE_EPOCH", &self.epoch)
            .args(["--root-owner-group", compression, "--build"])
            .args([&tree, &self.folder.join(format!("{name}.deb"))])
            .stdout(std::io::stderr()))
    }

    /// Makes the chart for Helm.
    fn chart(&self) -> Result<()> {
        let tree = empty(&self.trees.join("chart"))?;
        let from = root().join(PACKAGING).join("helm/host");
        for file in ["Chart.yaml", "values.yaml", "templates/host.yaml"] {
            let text = self.filled(&from.join(file))?;
            write(&tree.join("host").join(file), &text)?;
        }
        self.archive(&format!("host-chart-{}.tgz", self.version), &tree, "host")
    }

    /// Returns a template with the version and the architecture.
    fn filled(&self, template: &Path) -> Result<String> {
        let text = read(template)?.replace("@VERSION@", &self.version);
        Ok(text
            .replace("@ARCH@", &self.architecture)
            .replace("@CPU@", self.cpu()))
    }

    /// Returns the name of the architecture in npm.
    fn cpu(&self) -> &str {
        match &*self.architecture {
            "amd64" => "x64",
            other => other,
        }
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
        for document in DOCUMENTS.iter().chain(&PAGES) {
            copy(&root().join(document), &documents.join(document), 0o644)?;
        }
        Ok(())
    }

    /// Writes the checksums of all packages, and of those in `more`.
    fn sum(&self, more: &[PathBuf]) -> Result<PathBuf> {
        for package in more {
            let name = package.file_name().unwrap_or_default();
            copy(package, &self.folder.join(name), 0o644)?;
        }
        let sums = self.folder.join(SUMS);
        std::fs::remove_dir_all(&self.trees).context("cannot remove what was packed")?;
        let mut names: Vec<_> = files::names(&self.folder)?;
        names.retain(|name| name != SUMS);
        let text = output(
            Command::new("sha256sum")
                .current_dir(&self.folder)
                .args(&names),
        )?;
        write(&sums, &text)?;
        Ok(sums)
    }
}

/// Returns the time of the commit, or what `SOURCE_DATE_EPOCH` says.
fn epoch() -> Result<String> {
    if let Ok(epoch) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(epoch);
    }
    let mut log = Command::new("git");
    log.current_dir(root())
        .args(["log", "--max-count=1", "--format=%ct"]);
    let committed = output(&mut log)
        .context("set SOURCE_DATE_EPOCH to the time that files of packages have")?;
    Ok(committed.trim().to_owned())
}

/// Signs a file; the signature is beside it. Only a key with a password is encrypted.
fn sign(file: &Path, key: &Path, password: Option<String>) -> Result<()> {
    let kept = SecretKeyBox::from(read(key)?);
    let key = match password {
        Some(password) => kept.into_secret_key(Some(password)),
        None => kept.into_unencrypted_secret_key(),
    }
    .with_context(|| format!("cannot use the key {}", key.display()))?;
    let text = read(file)?;
    let signed = minisign::sign(None, &key, text.as_bytes(), None, None)
        .with_context(|| format!("cannot sign {}", file.display()))?;
    write(&file.with_extension("minisig"), &signed.into_string())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use minisign::{KeyPair, SignatureBox};

    use super::*;

    #[test]
    fn checksums_are_signed() {
        let folder = empty(&target_dir().join("dist-signed")).unwrap();
        let (sums, key) = (folder.join(SUMS), folder.join("key"));
        write(&sums, "abc  file\n").unwrap();
        let pair = KeyPair::generate_unencrypted_keypair().unwrap();
        write(&key, &pair.sk.to_box(None).unwrap().into_string()).unwrap();
        sign(&sums, &key, None).unwrap();
        let written = read(&folder.join("SHA256SUMS.minisig")).unwrap();
        let signature = SignatureBox::from_string(&written).unwrap();
        let text = Cursor::new(read(&sums).unwrap());
        minisign::verify(&pair.pk, &signature, text, true, false, false).unwrap();
        std::fs::remove_dir_all(folder).unwrap();
    }
}
