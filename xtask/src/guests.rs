//! `cargo xtask guests`: builds every component of the repository into `target/guests`, with the
//! compiler's own target where it is installed or can be, else with Debian's compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::cargo::{cargo, output, root, run, target_dir};
use crate::setup;

const TARGET: &str = "wasm32-wasip2";
const PROFILE: &str = "guest";

/// How long a download of the target may take before Debian's compiler is tried, in seconds.
const DOWNLOAD_SECONDS: &str = "60";

/// Debian's compiler, its library as source, and the C library below it.
const DEBIAN_PACKAGES: &[&str] = &["rustc-web", "cargo-web", "rust-web-src", "wasi-libc"];
const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_WASI_LIBC: &str = "/usr/lib/wasm32-wasi";
const DEBIAN_STD_SOURCE: &str = "/usr/lib/rustlib/src/rust/library";

/// Builds all components and returns the folder they are in, each with its manifest if it has one.
pub(crate) fn build() -> Result<PathBuf> {
    let packages = packages()?;
    let build_dir = target_dir().join("guests-build");
    std::fs::create_dir_all(&build_dir)
        .with_context(|| format!("cannot make {}", build_dir.display()))?;
    let mut command = compiler(&build_dir)?;
    command
        .current_dir(root())
        .env("CARGO_TARGET_DIR", &build_dir)
        .args(["build", "--locked", "--target", TARGET])
        .args(["--profile", PROFILE]);
    for package in &packages {
        command.args(["--package", &package.name]);
    }
    run(&mut command)?;
    let folder = target_dir().join("guests");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    let built = build_dir.join(TARGET).join(PROFILE);
    for package in &packages {
        let file = format!("{}.wasm", package.name.replace('-', "_"));
        copy(
            &built.join(file),
            &folder.join(format!("{}.wasm", package.name)),
        )?;
        let manifest = package.folder.join(format!("{}.toml", package.name));
        if manifest.exists() {
            copy(&manifest, &folder.join(format!("{}.toml", package.name)))?;
        }
    }
    Ok(folder)
}

/// One component's crate.
struct Package {
    name: String,
    folder: PathBuf,
}

/// Finds the crates of the workspace that are components: they are built as `cdylib`.
fn packages() -> Result<Vec<Package>> {
    let metadata = output(&mut cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
    ]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&metadata).context("cargo's metadata is no JSON")?;
    let packages = metadata["packages"]
        .as_array()
        .map_or(&[][..], Vec::as_slice);
    let components = packages.iter().filter(|package| {
        let targets = package["targets"].as_array().into_iter().flatten();
        targets
            .flat_map(|target| target["crate_types"].as_array().into_iter().flatten())
            .any(|kind| kind == "cdylib")
    });
    components
        .map(|package| {
            let name = package["name"].as_str().context("a package has a name")?;
            let manifest = package["manifest_path"]
                .as_str()
                .context("a package has a manifest")?;
            Ok(Package {
                name: name.to_owned(),
                folder: Path::new(manifest)
                    .parent()
                    .unwrap_or(Path::new(""))
                    .to_owned(),
            })
        })
        .collect()
}

/// Chooses the cargo that builds components, and installs what it needs.
fn compiler(build_dir: &Path) -> Result<Command> {
    let failed_before = build_dir.join("no-rustup-target");
    if has_target() {
        return Ok(Command::new(env!("CARGO")));
    }
    if !failed_before.exists() && setup::is_there("rustup") {
        eprintln!("installing the target {TARGET} with rustup");
        let added = Command::new("timeout")
            .args([DOWNLOAD_SECONDS, "rustup", "target", "add", TARGET])
            .status();
        if added.is_ok_and(|status| status.success()) && has_target() {
            return Ok(Command::new(env!("CARGO")));
        }
        std::fs::write(&failed_before, "delete this file to try rustup again\n")
            .with_context(|| format!("cannot write {}", failed_before.display()))?;
    }
    debian().with_context(|| {
        format!("components need the target {TARGET}: run `rustup target add {TARGET}`")
    })
}

fn has_target() -> bool {
    let folder =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]));
    folder.is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

/// Debian's compiler has no such target, but builds it from source with rustup's linker.
fn debian() -> Result<Command> {
    let needed = [
        DEBIAN_RUSTC,
        DEBIAN_CARGO,
        DEBIAN_WASI_LIBC,
        DEBIAN_STD_SOURCE,
    ];
    if !needed.iter().all(|path| Path::new(path).exists()) {
        setup::install(DEBIAN_PACKAGES)?;
    }
    if let Some(missing) = needed.iter().find(|path| !Path::new(path).exists()) {
        bail!("{missing} is not there although its package is installed");
    }
    let sysroot = output(Command::new("rustc").args(["--print", "sysroot"]))?;
    let tools = Path::new(sysroot.trim()).join(format!("lib/rustlib/{}/bin", host()?));
    let path = std::env::var_os("PATH").unwrap_or_default();
    let path = [tools.clone(), tools.join("gcc-ld")]
        .into_iter()
        .chain(std::env::split_paths(&path));
    let mut command = Command::new(DEBIAN_CARGO);
    command
        .env(
            "PATH",
            std::env::join_paths(path).context("cannot extend PATH")?,
        )
        .env("RUSTC", DEBIAN_RUSTC)
        .env("RUSTC_BOOTSTRAP", "1")
        .env("RUSTFLAGS", format!("-L {DEBIAN_WASI_LIBC}"))
        .arg("-Zbuild-std=std,panic_abort");
    Ok(command)
}

/// Returns the compiler's own platform, as `x86_64-unknown-linux-gnu`.
fn host() -> Result<String> {
    let version = output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned)
        .context("rustc does not name its platform")
}

/// Copies a file unless the copy is the same, so that what depends on it stays as it is.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let bytes = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if std::fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    std::fs::write(to, bytes).with_context(|| format!("cannot write {}", to.display()))
}
