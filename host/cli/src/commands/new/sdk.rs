//! Where the guest SDK is that a new crate depends on: where the user says, in the package that this
//! program was installed from, or in the checkout that it was built in.

use std::path::{Path, PathBuf};

use host_console::error::{CliError, Exit};
use host_console::plain;

/// The folder of the SDK beside an installed program, below its prefix.
const INSTALLED: &str = "share/host/guest-sdk";

/// The folder of the SDK in a checkout.
const CHECKED_OUT: &str = "guest-sdk";

/// How many folders above the program may be the top of a checkout.
const LEVELS_MAX: usize = 6;

/// Returns the keys of the dependency, as Cargo.toml writes them.
pub(super) fn dependency(given: Option<&str>, doing: &str) -> Result<String, CliError> {
    match given {
        Some(url) if url.contains("://") || url.starts_with("git@") => {
            Ok(format!("git = {}", quoted(url)))
        }
        Some(folder) => {
            let is_there = Path::new(folder).join("Cargo.toml").exists();
            let path = std::path::absolute(folder).ok().filter(|_| is_there);
            let path = path.ok_or_else(|| {
                let cause = format!("{} has no Cargo.toml", plain::line(folder));
                CliError::new(Exit::Usage, doing, cause)
                    .next("give --sdk the folder of the guest SDK, or a URL of git")
            })?;
            Ok(path_of(&path))
        }
        None => {
            let own = std::env::current_exe().ok();
            let found = own.as_deref().and_then(beside);
            let found = found.and_then(|folder| folder.canonicalize().ok());
            found.as_deref().map(path_of).ok_or_else(|| {
                CliError::new(
                    Exit::Failed,
                    doing,
                    "the guest SDK is not beside this program",
                )
                .next("give its folder, or the URL of its git repository, with --sdk")
            })
        }
    }
}

/// Finds the SDK that came with `program`.
fn beside(program: &Path) -> Option<PathBuf> {
    let bin = program.parent()?;
    let installed = bin.parent().map(|prefix| prefix.join(INSTALLED));
    let above = bin.ancestors().take(LEVELS_MAX);
    let checked_out = above.map(|folder| folder.join(CHECKED_OUT));
    installed
        .into_iter()
        .chain(checked_out)
        .find(|folder| folder.join("Cargo.toml").exists())
}

fn path_of(path: &Path) -> String {
    format!("path = {}", quoted(&path.display().to_string()))
}

/// Writes a string of TOML.
fn quoted(text: &str) -> String {
    toml::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{beside, dependency};

    #[test]
    fn the_sdk_comes_with_the_program() {
        let dir = tempfile::TempDir::new().unwrap();
        let at = |path: &str| dir.path().join(path);
        let sdk = |path: &str| {
            std::fs::create_dir_all(at(path)).unwrap();
            std::fs::write(at(path).join("Cargo.toml"), "").unwrap();
        };
        assert_eq!(beside(&at("usr/bin/host")), None);
        sdk("checkout/guest-sdk");
        let built = at("checkout/target/release/host");
        assert_eq!(beside(&built), Some(at("checkout/guest-sdk")));
        sdk("usr/share/host/guest-sdk");
        let installed = Some(at("usr/share/host/guest-sdk"));
        assert_eq!(beside(&at("usr/bin/host")), installed);
    }

    #[test]
    fn a_url_is_one_of_git_and_anything_else_a_folder() {
        let git = dependency(Some("https://example.com/host.git"), "write").unwrap();
        assert_eq!(git, r#"git = "https://example.com/host.git""#);
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        let path = dependency(own.to_str(), "write").unwrap();
        assert_eq!(path, format!("path = \"{}\"", own.display()));
        let error = dependency(Some("/no/such/folder"), "write").unwrap_err();
        assert!(error.to_string().contains("has no Cargo.toml"), "{error}");
    }
}
