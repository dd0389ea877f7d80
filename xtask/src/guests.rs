//! `cargo xtask guests`: builds every component of the repository into `target/guests`, with rustup's target
//! if it is or can be installed, otherwise with Debian's compiler.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, anyhow};
use host_toolchain::{DEBIAN_PACKAGES, TARGET, Toolchain, debian, has_target};

use crate::cargo::{cargo, output, root, run, target_dir};
use crate::setup;

const PROFILE: &str = "guest";

/// How long a download of the target may take before Debian's compiler is used, in seconds.
const DOWNLOAD_SECONDS: &str = "60";

/// Builds all components and returns their folder. Each has its manifest beside it, if any.
pub(crate) fn build() -> Result<PathBuf> {
    let packages = packages()?;
    let build_dir = target_dir().join("guests-build");
    std::fs::create_dir_all(&build_dir)
        .with_context(|| format!("cannot make {}", build_dir.display()))?;
    let mut command = compiler(&build_dir)?;
    command
        .current_dir(root())
        .args(["--locked", "--profile", PROFILE]);
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
    let json = output(&mut cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
    ]))?;
    let metadata: serde_json::Value =
        serde_json::from_str(&json).context("cargo's metadata is not valid JSON")?;
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
    let path = std::env::var_os("PATH").unwrap_or_default();
    Ok(toolchain(build_dir)?.build(&path, build_dir))
}

fn toolchain(build_dir: &Path) -> Result<Toolchain> {
    let failed_before = build_dir.join("no-rustup-target");
    if has_target() {
        return Ok(Toolchain::Target);
    }
    if !failed_before.exists() && setup::is_there("rustup") {
        eprintln!("installing the target {TARGET} with rustup");
        let added = Command::new("timeout")
            .args([DOWNLOAD_SECONDS, "rustup", "target", "add", TARGET])
            .status();
        if added.is_ok_and(|status| status.success()) && has_target() {
            return Ok(Toolchain::Target);
        }
        std::fs::write(&failed_before, "delete this file to try rustup again\n")
            .with_context(|| format!("cannot write {}", failed_before.display()))?;
    }
    if let Ok(there) = debian() {
        return Ok(there);
    }
    setup::install(DEBIAN_PACKAGES).with_context(|| {
        format!("components need the target {TARGET}: run `rustup target add {TARGET}`")
    })?;
    debian().map_err(|missing| anyhow!("{missing}; {}", missing.advice()))
}

/// Copies a file unless the copy is identical, so that nothing that depends on it is rebuilt.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let bytes = std::fs::read(from).with_context(|| format!("cannot read {}", from.display()))?;
    if std::fs::read(to).is_ok_and(|old| old == bytes) {
        return Ok(());
    }
    std::fs::write(to, bytes).with_context(|| format!("cannot write {}", to.display()))
}
