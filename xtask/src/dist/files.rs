//! Files and archives of packages.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use super::Release;
use crate::cargo::{output, run};

impl Release {
    /// Writes the package `name`: an archive of `entry` in `folder`.
    pub(super) fn archive(&self, name: &str, folder: &Path, entry: &str) -> Result<()> {
        let compress = format!("gzip --no-name -{}", self.level());
        run(self
            .tar("--create", &self.folder.join(name))
            .args(["--owner=0", "--group=0"])
            .args(["--use-compress-program", &compress])
            .arg("--directory")
            .args([folder, Path::new(entry)]))
    }

    /// Makes a `tar` that writes the same bytes for the same files.
    pub(super) fn tar(&self, verb: &str, archive: &Path) -> Command {
        let mut tar = Command::new("tar");
        tar.args([verb, "--sort=name", "--format=gnu", "--numeric-owner"])
            .arg(format!("--mtime=@{}", self.epoch))
            .arg("--file")
            .arg(archive);
        tar
    }
}

/// Returns the SHA-256 of a file.
pub(super) fn sha256(file: &Path) -> Result<String> {
    let line = output(Command::new("sha256sum").arg(file))?;
    let sum = line.split_whitespace().next();
    Ok(sum.context("sha256sum printed no sum")?.to_owned())
}

/// Returns the names of the files in a folder, in order.
pub(super) fn names(folder: &Path) -> Result<Vec<String>> {
    let shown = || format!("cannot read {}", folder.display());
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).with_context(shown)? {
        let name = entry.with_context(shown)?.file_name();
        names.push(name.to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

/// Makes an empty folder.
pub(super) fn empty(path: &Path) -> Result<PathBuf> {
    if path.exists() {
        fs::remove_dir_all(path).with_context(|| format!("cannot remove {}", path.display()))?;
    }
    folder(path)?;
    Ok(path.to_owned())
}

pub(super) fn folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).with_context(|| format!("cannot make {}", path.display()))
}

pub(super) fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

pub(super) fn write(path: &Path, text: &str) -> Result<()> {
    path.parent().map_or(Ok(()), folder)?;
    fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))?;
    permit(path, 0o644)
}

pub(super) fn copy(from: &Path, to: &Path, mode: u32) -> Result<()> {
    to.parent().map_or(Ok(()), folder)?;
    fs::copy(from, to).with_context(|| format!("cannot copy {}", from.display()))?;
    permit(to, mode)
}

/// Copies the files of a folder, and those below it.
pub(super) fn copy_all(from: &Path, to: &Path) -> Result<()> {
    for name in names(from)? {
        let (from, to) = (from.join(&name), to.join(&name));
        if from.is_dir() {
            copy_all(&from, &to)?;
        } else {
            copy(&from, &to, 0o644)?;
        }
    }
    Ok(())
}

pub(super) fn permit(path: &Path, mode: u32) -> Result<()> {
    fs::set_permissions(path, Permissions::from_mode(mode))
        .with_context(|| format!("cannot change the mode of {}", path.display()))
}
