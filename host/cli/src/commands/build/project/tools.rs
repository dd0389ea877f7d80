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
    let shown = folder.display().to_string();
    say(&format!(
        "installing {} from {} into {} (about {} MB, once)",
        tool.name,
        tool.registry.name(),
        plain::line(&shown),
        tool.megabytes
    ));
    // Another build may install it at the same time: each does so beside, and the first one stays, because it may be in use.
    let beside = tools.join(format!("{}.{}", tool.name, std::process::id()));
    lay_out(tool, &beside).map_err(|error| failed(&error))?;
    super::run(&mut tool.install(&beside), &doing, tool.registry.mirror()).inspect_err(|_| {
        // Leftovers are replaced.
        let _ = fs::remove_dir_all(&beside);
    })?;
    if is_complete(tool, &folder) {
        let _ = fs::remove_dir_all(&beside);
    } else {
        replace(&beside, &folder).map_err(|error| failed(&error))?;
    }
    Ok(folder)
}

/// Returns whether the folder has the files of this version. It has them only when the installation is complete.
fn is_complete(tool: &Pinned, folder: &Path) -> bool {
    let mut files = tool.files.iter();
    files.all(|(path, text)| fs::read(folder.join(path)).is_ok_and(|kept| kept == text.as_bytes()))
}

fn lay_out(tool: &Pinned, folder: &Path) -> io::Result<()> {
    // The cache folder is for its user only: compiled components are in it too.
    let mut folders = fs::DirBuilder::new();
    folders.recursive(true).mode(0o700);
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
}
