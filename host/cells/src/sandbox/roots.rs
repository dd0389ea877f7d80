//! The directories below which manifests may grant others. A path outside of them is never touched, so that
//! no answer reveals whether it exists.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

use host_runtime::folder::{self, Dir};

/// The most directories.
pub const ROOTS_MAX: usize = 64;

/// The directories below which manifests may grant others. Clones share them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadRoots(Arc<[PathBuf]>);

impl ReadRoots {
    pub fn new(roots: Vec<PathBuf>) -> Self {
        Self(roots.into())
    }

    /// Checks that all roots exist, and that none overlaps a path in `never`.
    pub fn check<'a>(&self, never: impl Iterator<Item = &'a Path>) -> Result<(), String> {
        let never: Vec<PathBuf> = never.map(real).collect();
        for root in &*self.0 {
            open_root(root).map_err(|error| error.to_string())?;
            let found = real(root);
            let clash = never
                .iter()
                .find(|never| never.starts_with(&found) || found.starts_with(never));
            if let Some(clash) = clash {
                return Err(format!(
                    "{} in grants.read_roots would grant {}, which is never granted; choose other directories",
                    root.display(),
                    clash.display()
                ));
            }
        }
        Ok(())
    }

    /// Returns the root above `path`, and the rest of the path. Does no I/O.
    fn find<'a>(&self, path: &'a Path) -> Option<(&Path, &'a Path)> {
        if path.components().any(|part| part == Component::ParentDir) {
            return None;
        }
        let mut roots = self.0.iter();
        roots.find_map(|root| Some((root.as_path(), path.strip_prefix(root).ok()?)))
    }

    /// Opens a directory below a root. A symbolic link that leads out of the root is not followed.
    pub fn open(&self, path: &Path) -> io::Result<OwnedFd> {
        let outside = || io::Error::new(io::ErrorKind::PermissionDenied, OUTSIDE);
        let (root, rest) = self.find(path).ok_or_else(outside)?;
        let root = open_root(root)?;
        let rest = if rest.as_os_str().is_empty() {
            Path::new(".")
        } else {
            rest
        };
        folder::open_below(&root, rest)?.ok_or_else(outside)
    }

    /// Opens all roots.
    pub(crate) fn open_all(&self) -> io::Result<Vec<OwnedFd>> {
        let opened = |root: &PathBuf| Ok(open_root(root)?.into());
        self.0.iter().map(opened).collect()
    }
}

/// Why a path is refused.
const OUTSIDE: &str = "not below a directory in grants.read_roots";

/// Returns the path without links, as far as it exists.
fn real(path: &Path) -> PathBuf {
    path.canonicalize()
        .or_else(|_| std::path::absolute(path))
        .unwrap_or_else(|_| path.to_owned())
}

fn open_root(root: &Path) -> io::Result<Dir> {
    folder::open(root).map_err(|error| {
        let message = format!(
            "cannot open {} in grants.read_roots: {error}",
            root.display()
        );
        io::Error::new(error.kind(), message)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn roots_that_hold_what_is_never_granted_are_refused() {
        let folder = tempfile::TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("data/inner")).unwrap();
        fs::create_dir_all(at("reports")).unwrap();
        symlink(at("data"), at("link")).unwrap();
        let data = at("data");
        let check = |root: PathBuf| {
            let never = [Path::new("/proc"), &data];
            ReadRoots::new(vec![root]).check(never.into_iter())
        };
        assert_eq!(check(at("reports")), Ok(()));
        for root in ["", "data", "data/inner", "link"] {
            let refused = check(at(root)).unwrap_err();
            assert!(refused.contains("never granted"), "{root}: {refused}");
        }
        for root in ["/", "/proc", "/proc/self"] {
            assert!(check(PathBuf::from(root)).is_err(), "{root}");
        }
        assert!(check(at("gone")).unwrap_err().contains("cannot open"));
    }

    #[test]
    fn only_directories_below_a_root_are_opened() {
        let folder = tempfile::TempDir::new().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir_all(at("root/inner")).unwrap();
        fs::create_dir_all(at("other")).unwrap();
        fs::write(at("root/file"), "").unwrap();
        symlink("inner", at("root/near")).unwrap();
        symlink(at("other"), at("root/far")).unwrap();
        symlink("../other", at("root/up")).unwrap();
        let roots = ReadRoots::new(vec![at("root")]);
        for name in ["root", "root/inner", "root/near", "root//inner/"] {
            assert!(roots.open(&at(name)).is_ok(), "{name}");
        }
        let refused = |name: &str| roots.open(&at(name)).unwrap_err().to_string();
        // The answer is the same whether or not the path exists.
        for name in [
            "other",
            "gone",
            "root2",
            "root/../other",
            "root/far",
            "root/up",
            "",
        ] {
            assert_eq!(refused(name), OUTSIDE, "{name}");
        }
        for name in ["root/gone", "root/file"] {
            assert_ne!(refused(name), OUTSIDE, "{name}");
        }
        assert_eq!(
            ReadRoots::default()
                .open(&at("root"))
                .unwrap_err()
                .to_string(),
            OUTSIDE
        );
    }
}
