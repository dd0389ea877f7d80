//! Builders of other languages in the user's cache folder: installed once, used without a network afterwards.

use std::fs;
use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};

use host_console::error::{CliError, Exit};
use host_console::output::say;
use host_console::plain;
use host_server::config;
use host_toolchain::pinned::Pinned;

/// The folder below the cache folder.
const FOLDER: &str = "tools";

/// Returns the folder of a builder, and installs it there if it is not.
pub(super) fn folder(tool: &Pinned) -> Result<PathBuf, CliError> {
    let doing = format!("install {} from {}", tool.name, tool.registry.name());
    let failed = |error: &dyn std::fmt::Display| CliError::new(Exit::Failed, &doing, error);
    let configured = config::cache(&config::environment());
    let cache =
        configured.ok_or_else(|| failed(&"no cache folder").next("set HOME or XDG_CACHE_HOME"))?;
    let tools = cache.join(FOLDER);
    let folder = tools.join(tool.name);
    if is_complete(tool, &folder) {
        return Ok(folder);
    }
    // Another build may install it too: one does, the others wait.
    let turn = await_turn(&tools, tool).map_err(|error| failed(&error))?;
    if is_complete(tool, &folder) {
        return Ok(folder);
    }
    let shown = folder.display().to_string();
    say(&format!(
        "installing {} from {} into {} (about {} MB, once)",
        tool.name,
        tool.registry.name(),
        plain::line(&shown),
        tool.megabytes
    ));
    let beside = tools.join(format!("{}.{}", tool.name, std::process::id()));
    lay_out(tool, &beside).map_err(|error| failed(&error))?;
    super::run(&mut tool.install(&beside), &doing, tool.registry.mirror()).inspect_err(|_| {
        // Leftovers are replaced.
        let _ = fs::remove_dir_all(&beside);
    })?;
    replace(&beside, &folder).map_err(|error| failed(&error))?;
    drop(turn);
    Ok(folder)
}

/// Waits until no other build installs the builder. The turn ends when the file is closed, also by a crash.
fn await_turn(tools: &Path, tool: &Pinned) -> io::Result<fs::File> {
    private_folders().create(tools)?;
    let file = fs::File::create(tools.join(format!("{}.lock", tool.name)))?;
    file.lock()?;
    Ok(file)
}

/// The cache folder is for its user only: compiled components are in it too.
fn private_folders() -> fs::DirBuilder {
    let mut folders = fs::DirBuilder::new();
    folders.recursive(true).mode(0o700);
    folders
}

/// Returns whether the folder has the files of this version. It has them only when the installation is complete.
fn is_complete(tool: &Pinned, folder: &Path) -> bool {
    let mut files = tool.files.iter();
    files.all(|(path, text)| fs::read(folder.join(path)).is_ok_and(|kept| kept == text.as_bytes()))
}

fn lay_out(tool: &Pinned, folder: &Path) -> io::Result<()> {
    let folders = private_folders();
    for (path, text) in tool.files {
        let path = folder.join(path);
        path.parent()
            .map_or(Ok(()), |parent| folders.create(parent))?;
        fs::write(path, text)?;
    }
    Ok(())
}

fn replace(new: &Path, folder: &Path) -> io::Result<()> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::rename(new, folder)
}

#[cfg(test)]
mod tests {
    use host_toolchain::pinned::{COMPONENTIZE_PY, Pinned};

    use super::*;

    #[test]
    fn a_folder_with_other_files_is_not_complete() {
        let dir = tempfile::TempDir::new().unwrap();
        let folder = dir.path().join("tool");
        assert!(!is_complete(&COMPONENTIZE_PY, &folder));
        lay_out(&COMPONENTIZE_PY, &folder).unwrap();
        assert!(is_complete(&COMPONENTIZE_PY, &folder));
        let newer = Pinned {
            files: &[("requirements.txt", "other==1")],
            ..COMPONENTIZE_PY
        };
        assert!(!is_complete(&newer, &folder));
        let beside = dir.path().join("beside");
        lay_out(&newer, &beside).unwrap();
        replace(&beside, &folder).unwrap();
        assert!(is_complete(&newer, &folder));
    }

    #[test]
    fn one_build_at_a_time_installs() {
        let dir = tempfile::TempDir::new().unwrap();
        let first = await_turn(dir.path(), &COMPONENTIZE_PY).unwrap();
        let path = dir.path().join(format!("{}.lock", COMPONENTIZE_PY.name));
        let second = fs::File::open(path).unwrap();
        assert!(second.try_lock().is_err());
        drop(first);
        second.try_lock().unwrap();
    }
}
