//! Which compiler builds components on this machine: the one on the path if it has the target, else Debian's,
//! which builds the target's library from source and links with rustup's tools. It only finds compilers and
//! prepares commands; it installs nothing and reads no environment. `pinned` has the builders of other languages.

pub mod pinned;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use thiserror::Error;

/// The target of components.
pub const TARGET: &str = "wasm32-wasip2";

/// Debian's compiler, its library as source, and the C library below it.
pub const DEBIAN_PACKAGES: &[&str] = &["rustc-web", "cargo-web", "rust-web-src", "wasi-libc"];

const DEBIAN_RUSTC: &str = "/usr/bin/rustc";
const DEBIAN_CARGO: &str = "/usr/bin/cargo";
const DEBIAN_WASI_LIBC: &str = "/usr/lib/wasm32-wasi";
const DEBIAN_STD_SOURCE: &str = "/usr/lib/rustlib/src/rust/library";

/// The linkers of a component; both come with rustup's compiler.
const LINKERS: &[&str] = &["rust-lld", "wasm-component-ld"];

/// A way to build components.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Toolchain {
    /// The compiler on the path has the target.
    Target,
    /// Debian's compiler with the linkers in this folder.
    Debian { linkers: PathBuf },
}

/// Why components cannot be built.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum Missing {
    #[error("no Rust compiler (`rustc`) on the path")]
    Rust,
    #[error("no C compiler (`cc`) on the path; it links programs that run during a build")]
    C,
    #[error("the Rust compiler lacks the target {TARGET}, and {} does not exist", .file.display())]
    Target { file: PathBuf },
}

impl Missing {
    /// Returns what to install.
    pub fn advice(&self) -> String {
        match self {
            Self::Rust => "install Rust with rustup (https://rustup.rs)".to_owned(),
            Self::C => "install one; on Debian: apt-get install build-essential".to_owned(),
            Self::Target { file } if LINKERS.iter().any(|it| file.ends_with(it)) => {
                format!("install Rust with rustup, then run `rustup target add {TARGET}`")
            }
            Self::Target { .. } => format!(
                "run `rustup target add {TARGET}`; if rustup cannot download it, on Debian: apt-get \
                 install --no-install-recommends {}",
                DEBIAN_PACKAGES.join(" ")
            ),
        }
    }
}

/// Finds a way to build components here.
pub fn find() -> Result<Toolchain, Missing> {
    if !answers("rustc") {
        return Err(Missing::Rust);
    }
    if !answers("cc") {
        return Err(Missing::C);
    }
    if has_target() {
        return Ok(Toolchain::Target);
    }
    debian()
}

/// Returns whether the compiler on the path has the target.
pub fn has_target() -> bool {
    let folder = printed(&["--print", "target-libdir", "--target", TARGET]);
    folder.is_some_and(|folder| Path::new(folder.trim()).is_dir())
}

/// Finds Debian's compiler and the linkers it needs.
pub fn debian() -> Result<Toolchain, Missing> {
    let sysroot = printed(&["--print", "sysroot"]).ok_or(Missing::Rust)?;
    let version = printed(&["-vV"]).ok_or(Missing::Rust)?;
    let platform = version
        .lines()
        .find_map(|line| line.strip_prefix("host: "))
        .ok_or(Missing::Rust)?;
    let linkers = Path::new(sysroot.trim()).join(format!("lib/rustlib/{platform}/bin"));
    let packaged = [
        DEBIAN_RUSTC,
        DEBIAN_CARGO,
        DEBIAN_WASI_LIBC,
        DEBIAN_STD_SOURCE,
    ];
    let needed = packaged
        .iter()
        .map(PathBuf::from)
        .chain(LINKERS.iter().map(|linker| linkers.join(linker)));
    match needed.into_iter().find(|file| !file.exists()) {
        Some(file) => Err(Missing::Target { file }),
        None => Ok(Toolchain::Debian { linkers }),
    }
}

impl Toolchain {
    /// Makes a `cargo build` for components that writes into `build_dir`, which no other compiler shares.
    /// `path` is the `PATH` of this process. The caller adds the folder and the targets.
    pub fn build(&self, path: &OsStr, build_dir: &Path) -> Command {
        let mut command = match self {
            Self::Target => Command::new("cargo"),
            Self::Debian { linkers } => {
                let mut command = Command::new(DEBIAN_CARGO);
                command
                    .env("PATH", with_linkers(linkers, path))
                    .env("RUSTC", DEBIAN_RUSTC)
                    .env("RUSTC_BOOTSTRAP", "1")
                    .env("RUSTFLAGS", format!("-L {DEBIAN_WASI_LIBC}"));
                command
            }
        };
        command.args(["build", "--target", TARGET]);
        if matches!(self, Self::Debian { .. }) {
            command.arg("-Zbuild-std=std,panic_abort");
        }
        command.env("CARGO_TARGET_DIR", build_dir);
        command
    }
}

fn with_linkers(linkers: &Path, path: &OsStr) -> OsString {
    let first = [linkers.to_owned(), linkers.join("gcc-ld")];
    let all = first.into_iter().chain(std::env::split_paths(path));
    std::env::join_paths(all).unwrap_or_else(|_| path.to_owned())
}

/// Returns whether a program starts and prints its version.
fn answers(program: &str) -> bool {
    let mut command = Command::new(program);
    command.arg("--version").stdin(Stdio::null());
    command.output().is_ok_and(|output| output.status.success())
}

/// Returns what the compiler on the path prints.
fn printed(args: &[&str]) -> Option<String> {
    let output = Command::new("rustc").args(args).output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    output.status.success().then_some(text)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::path::{Path, PathBuf};

    use super::{Missing, Toolchain};

    fn parts(toolchain: &Toolchain) -> (String, Vec<String>, Vec<String>) {
        let command = toolchain.build(OsStr::new("/usr/bin:/bin"), Path::new("/tmp/build"));
        let text = |text: &OsStr| text.to_string_lossy().into_owned();
        let env = command.get_envs();
        (
            text(command.get_program()),
            command.get_args().map(text).collect(),
            env.map(|(key, value)| format!("{}={}", text(key), text(value.unwrap_or_default())))
                .collect(),
        )
    }

    #[test]
    fn the_target_needs_no_more() {
        let (program, args, env) = parts(&Toolchain::Target);
        assert_eq!(program, "cargo");
        assert_eq!(args, ["build", "--target", "wasm32-wasip2"]);
        assert_eq!(env, ["CARGO_TARGET_DIR=/tmp/build"]);
    }

    #[test]
    fn debians_compiler_builds_the_library_and_finds_the_linkers() {
        let linkers = PathBuf::from("/rust/bin");
        let (program, args, env) = parts(&Toolchain::Debian { linkers });
        assert_eq!(program, "/usr/bin/cargo");
        assert_eq!(
            args,
            [
                "build",
                "--target",
                "wasm32-wasip2",
                "-Zbuild-std=std,panic_abort"
            ]
        );
        assert!(
            env.contains(&"PATH=/rust/bin:/rust/bin/gcc-ld:/usr/bin:/bin".to_owned()),
            "{env:?}"
        );
        assert!(env.contains(&"RUSTC=/usr/bin/rustc".to_owned()), "{env:?}");
    }

    #[test]
    fn what_is_missing_says_what_to_install() {
        let target = |file: &str| Missing::Target {
            file: PathBuf::from(file),
        };
        for (missing, expected) in [
            (Missing::Rust, "rustup"),
            (Missing::C, "build-essential"),
            (target("/usr/bin/rustc"), "rustc-web"),
            (target("/rust/bin/rust-lld"), "install Rust with rustup"),
        ] {
            let advice = missing.advice();
            assert!(advice.contains(expected), "{missing}: {advice}");
        }
    }
}
