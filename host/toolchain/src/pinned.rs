//! The builders of components in other languages: which, in which version, with which hashes, and the commands that
//! install them. They come from the registries of their languages.

use std::path::Path;
use std::process::Command;

/// The interface that they build for.
const WIT: (&str, &str) = (
    "wit/jobs.wit",
    include_str!("../../../wit/host-jobs-1.2.0/jobs.wit"),
);

/// Its package.
const PACKAGE: (&str, &str) = ("host:jobs", "1.2.0");

/// Its interfaces that components import. The SDK for Python finds them by these names, whatever else a component imports.
const INTERFACES: [&str; 11] = [
    "artifacts",
    "control",
    "http",
    "jobs",
    "limits",
    "log",
    "secrets",
    "sql",
    "state",
    "steps",
    "types",
];

/// The program that bundles JavaScript and calls a builder, and its parts.
const BUILD: (&str, &str) = ("build.mjs", include_str!("pinned/build.mjs"));
const GLOBALS: (&str, &str) = ("globals.mjs", include_str!("pinned/globals.mjs"));
const MODULES: (&str, &str) = ("modules.mjs", include_str!("pinned/modules.mjs"));
const NODE_TEST: (&str, &str) = ("node_test.mjs", include_str!("pinned/node_test.mjs"));
const TESTING: (&str, &str) = ("testing.mjs", include_str!("pinned/testing.mjs"));
const STACK: (&str, &str) = ("stack.mjs", include_str!("pinned/stack.mjs"));

/// A builder that is installed once for each user.
#[derive(Clone, Copy, Debug)]
pub struct Pinned {
    /// Its name with its version, which its folder has too.
    pub name: &'static str,
    /// Where it comes from.
    pub registry: Registry,
    /// About how much room it takes, in MB.
    pub megabytes: u32,
    /// What is in its folder before it is installed: its lock file, and what it is used with.
    pub files: &'static [(&'static str, &'static str)],
}

/// A registry of packages, and the program that installs from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Registry {
    Npm,
    PyPi,
}

/// The builder for Python.
pub const COMPONENTIZE_PY: Pinned = Pinned {
    name: "componentize-py-0.25.1",
    registry: Registry::PyPi,
    megabytes: 46,
    files: &[
        (
            "requirements.txt",
            include_str!("pinned/componentize-py/requirements.txt"),
        ),
        (
            "packages.py",
            include_str!("pinned/componentize-py/packages.py"),
        ),
        (
            "packages/host_bundle/__init__.py",
            include_str!("pinned/componentize-py/host_bundle/__init__.py"),
        ),
        (
            "packages/host_bundle/build.py",
            include_str!("pinned/componentize-py/host_bundle/build.py"),
        ),
        (
            "packages/host_bundle/files.py",
            include_str!("pinned/componentize-py/host_bundle/files.py"),
        ),
        (
            "packages/host_bundle/library.py",
            include_str!("pinned/componentize-py/host_bundle/library.py"),
        ),
        (
            "packages/host_bundle/memory.py",
            include_str!("pinned/componentize-py/host_bundle/memory.py"),
        ),
        (
            "packages/host_bundle/platform.py",
            include_str!("pinned/componentize-py/host_bundle/platform.py"),
        ),
        (
            "packages/host_bundle/prepare.py",
            include_str!("pinned/componentize-py/host_bundle/prepare.py"),
        ),
        (
            "packages/host_bundle/scan.py",
            include_str!("pinned/componentize-py/host_bundle/scan.py"),
        ),
        (
            "packages/host_bundle/tests.py",
            include_str!("pinned/componentize-py/host_bundle/tests.py"),
        ),
        WIT,
    ],
};

/// The builder for JavaScript in `QuickJS`, with a bundler.
pub const QUICKJS: Pinned = Pinned {
    name: "componentize-qjs-0.4.5",
    registry: Registry::Npm,
    megabytes: 74,
    files: &[
        ("package.json", include_str!("pinned/quickjs/package.json")),
        (
            "package-lock.json",
            include_str!("pinned/quickjs/package-lock.json"),
        ),
        (
            "wit/quickjs.wit",
            include_str!("pinned/quickjs/wit/quickjs.wit"),
        ),
        (
            "wit/deps/random/random.wit",
            include_str!("pinned/quickjs/wit/random.wit"),
        ),
        ("wit/deps/jobs/jobs.wit", WIT.1),
        BUILD,
        GLOBALS,
        MODULES,
        NODE_TEST,
        STACK,
        TESTING,
    ],
};

/// The builder for JavaScript in `StarlingMonkey`, with a bundler.
pub const STARLINGMONKEY: Pinned = Pinned {
    name: "componentize-js-0.23.0",
    registry: Registry::Npm,
    megabytes: 404,
    files: &[
        (
            "package.json",
            include_str!("pinned/starlingmonkey/package.json"),
        ),
        (
            "package-lock.json",
            include_str!("pinned/starlingmonkey/package-lock.json"),
        ),
        BUILD,
        GLOBALS,
        MODULES,
        NODE_TEST,
        STACK,
        TESTING,
        WIT,
    ],
};

impl Registry {
    /// Returns its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Npm => "npm",
            Self::PyPi => "PyPI",
        }
    }

    /// Returns what to do if it cannot be reached.
    pub const fn mirror(self) -> &'static str {
        match self {
            Self::Npm => {
                "see the output above; the first build needs npm, or a mirror of it in npm_config_registry"
            }
            Self::PyPi => {
                "see the output above; the first build needs PyPI, or a mirror of it in PIP_INDEX_URL"
            }
        }
    }

    /// Returns what a machine needs to install from it and to run what it has.
    pub const fn advice(self) -> &'static str {
        match self {
            Self::Npm => {
                "install Node.js 20 or later with npm (https://nodejs.org); on Debian: apt-get install nodejs npm"
            }
            Self::PyPi => {
                "install Python 3.10 or later with pip; on Debian: apt-get install python3 python3-pip"
            }
        }
    }
}

impl Pinned {
    /// Makes the command that installs it in `folder`, which has its files. No package may run a program during that.
    pub fn install(&self, folder: &Path) -> Command {
        let mut command = match self.registry {
            Registry::Npm => packages_of_npm(),
            Registry::PyPi => packages_of_builder(),
        };
        command.current_dir(folder);
        command
    }

    /// Makes the command that runs it, installed in `folder`.
    pub fn program(&self, folder: &Path) -> Command {
        match self.registry {
            Registry::Npm => {
                let mut command = Command::new("node");
                command.arg(folder.join("build.mjs"));
                command
            }
            Registry::PyPi => {
                let mut command = Command::new("python3");
                command
                    .args([
                        "-c",
                        "from componentize_py import script; script()",
                        "--quiet",
                    ])
                    .arg("--wit-path")
                    .arg(folder.join("wit"))
                    .env("PYTHONPATH", folder.join(PACKAGES));
                let (package, version) = PACKAGE;
                command.args(["--world", &format!("{package}/job@{version}")]);
                for name in INTERFACES {
                    let named = format!("{package}/{name}@{version}={name}");
                    command.args(["--import-interface-name", &named]);
                }
                command
            }
        }
    }
}

/// Where packages of Python are in a folder of a builder: its own, those of ours, and time zones.
pub const PACKAGES: &str = "packages";

/// Makes the command that installs what `package-lock.json` locks, in the folder that it runs in. What npm's cache has is
/// not asked for again: the lock file has hashes.
pub fn packages_of_npm() -> Command {
    let mut command = Command::new("npm");
    command.args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"]);
    command.arg("--prefer-offline");
    command
}

/// Makes the command that installs what a `requirements.txt` locks into `packages`, for components, with the builder in `tool`.
pub fn packages_of_pip(tool: &Path, requirements: &Path, packages: &Path) -> Command {
    let mut command = Command::new("python3");
    command.arg(tool.join("packages.py"));
    command.args([requirements, packages]);
    command
}

/// Makes the command that installs a builder from `PyPI`.
fn packages_of_builder() -> Command {
    let mut command = Command::new("python3");
    command
        .args(["-m", "pip", "install", "--disable-pip-version-check"])
        .args(["--require-hashes", "--requirement", "requirements.txt"])
        .args(["--target", PACKAGES, "--only-binary", ":all:"]);
    command
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::{COMPONENTIZE_PY, INTERFACES, PACKAGE, QUICKJS, Registry, STARLINGMONKEY, WIT};

    #[test]
    fn each_package_of_a_builder_has_a_version_and_a_hash() {
        for pinned in [COMPONENTIZE_PY, QUICKJS, STARLINGMONKEY] {
            let text = |name: &str| {
                let mut files = pinned.files.iter();
                files.find(|(path, _)| *path == name).map(|(_, text)| *text)
            };
            let (package, version) = pinned.name.rsplit_once('-').unwrap();
            let (packages, hashes, pin) = match pinned.registry {
                Registry::Npm => {
                    let lock = text("package-lock.json").unwrap();
                    let packages = lock.matches("\"node_modules/").count();
                    let pin = format!("{package}\": \"{version}\"");
                    (
                        packages,
                        lock.matches("\"integrity\": \"sha512-").count(),
                        pin,
                    )
                }
                Registry::PyPi => {
                    let lock = text("requirements.txt").unwrap();
                    let mut pins = lock.split("==");
                    pins.next();
                    let hashes = pins.filter(|it| it.contains("--hash=sha256:")).count();
                    (
                        lock.matches("==").count(),
                        hashes,
                        format!("{package}=={version}"),
                    )
                }
            };
            assert!(packages > 0, "{pinned:?}");
            assert_eq!(packages, hashes, "{}", pinned.name);
            let mut texts = pinned.files.iter().map(|(_, text)| text);
            assert!(texts.any(|text| text.contains(&pin)), "{pin}");
        }
    }

    #[test]
    fn the_names_of_interfaces_are_those_of_the_interface() {
        let (package, version) = PACKAGE;
        let (_, wit) = WIT;
        assert!(wit.contains(&format!("\npackage {package}@{version};")));
        let mut own: Vec<_> = wit
            .lines()
            .filter_map(|line| line.strip_prefix("interface "))
            .filter_map(|line| line.strip_suffix(" {"))
            .collect();
        own.retain(|name| *name != "handler");
        own.sort_unstable();
        assert_eq!(own, INTERFACES);
    }

    #[test]
    fn no_package_runs_a_program_when_it_is_installed() {
        let shown = |registry| {
            let mut pinned = [COMPONENTIZE_PY, QUICKJS]
                .into_iter()
                .filter(|it| it.registry == registry);
            format!("{:?}", pinned.next().unwrap().install(Path::new("/tools")))
        };
        let npm = shown(Registry::Npm);
        assert!(npm.contains("\"ci\" \"--ignore-scripts\""), "{npm}");
        let pip = shown(Registry::PyPi);
        assert!(pip.contains("\"--require-hashes\""), "{pip}");
        assert!(pip.contains("\"--only-binary\" \":all:\""), "{pip}");
    }
}
