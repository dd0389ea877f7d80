//! The packages in `sdk` and `clients` can be published: each is packed as its registry takes it, is whole, and works where
//! nothing but the package is installed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use host_tests::peers;
use serde_json::Value;
use tempfile::TempDir;

/// Checks the metadata of a wheel as `PyPI` does.
const CHECK: &str = "
import sys, zipfile
from packaging.metadata import Metadata
wheel = zipfile.ZipFile(sys.argv[1])
[metadata] = [name for name in wheel.namelist() if name.endswith('.dist-info/METADATA')]
read = Metadata.from_email(wheel.read(metadata), validate=True)
assert read.description and read.description_content_type == 'text/markdown', read
assert read.license_expression == 'Apache-2.0' and read.license_files == ['LICENSE'], read
assert not read.requires_dist, read
";

fn package(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(folder)
}

fn run(command: &mut Command) -> String {
    let ran = command.output().unwrap();
    let message = String::from_utf8_lossy(&ran.stderr);
    assert!(ran.status.success(), "{command:?}: {message}");
    String::from_utf8(ran.stdout).unwrap()
}

/// Returns the files below a folder, as paths from `top`.
fn below(folder: &Path, top: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let paths = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| !path.ends_with("__pycache__"));
    let files = paths.flat_map(|path| {
        if path.is_dir() {
            return below(&path, top);
        }
        vec![path.strip_prefix(top).unwrap().display().to_string()]
    });
    files.collect()
}

/// Returns the only file in a folder that ends so.
fn only(folder: &Path, ending: &str) -> PathBuf {
    let mut files = below(folder, folder);
    files.retain(|file| file.ends_with(ending));
    let [file] = &files[..] else {
        panic!("{}: {files:?}", folder.display())
    };
    folder.join(file)
}

fn npm(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("npm");
    command
        .args(arguments)
        .args(["--ignore-scripts", "--offline"]);
    run(command.current_dir(folder))
}

/// Packs and installs a package, and runs and compiles `program`.
fn check_npm(folder: &str, name: &str, program: &str) {
    let (package, place) = (package(folder), TempDir::new().unwrap());
    let to = place.path().to_str().unwrap();
    let text = npm(&package, &["pack", "--json", "--pack-destination", to]);
    let packed: Value = serde_json::from_str(&text).unwrap();
    let mut files: Vec<&str> = packed[0]["files"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| it["path"].as_str().unwrap())
        .collect();
    let mut expected = below(&package.join("src"), &package);
    expected.extend(["LICENSE", "README.md", "package.json"].map(str::to_owned));
    files.sort_unstable();
    expected.sort_unstable();
    assert_eq!(files, expected, "{name}");
    fs::write(place.path().join("package.json"), r#"{"type": "module"}"#).unwrap();
    let tarball = only(place.path(), ".tgz");
    npm(place.path(), &["install", tarball.to_str().unwrap()]);
    let installed = place.path().join("node_modules");
    let names: Vec<_> = fs::read_dir(&installed)
        .unwrap()
        .map(|it| it.unwrap().file_name())
        .filter(|it| it != ".package-lock.json")
        .collect();
    assert_eq!(names, [name], "it needs nothing else");
    fs::write(place.path().join("program.mts"), program).unwrap();
    let compiler = peers::typescript().join("node_modules/.bin/tsc");
    let options = ["--strict", "--module", "node16", "--target", "es2022"];
    run(Command::new(compiler)
        .current_dir(place.path())
        .args(options)
        .args(["--lib", "es2023,dom,dom.iterable", "program.mts"]));
    let printed = run(Command::new("node").arg(place.path().join("program.mjs")));
    assert_eq!(printed, "it works\n");
}

#[test]
fn of_handlers_in_javascript() {
    check_npm("sdk/js", "host-jobs", include_str!("packages/handlers.mts"));
}

#[test]
fn of_the_client_in_typescript() {
    let program = "
        import { Client, HostError } from 'host-jobs-client';
        const client = new Client({ server: 'http://127.0.0.1:1', patienceMs: 1 });
        const why: unknown = await client.job('j').catch((error: unknown) => error);
        if (why instanceof HostError) console.log('it works');";
    check_npm("clients/typescript", "host-jobs-client", program);
}

/// Builds both distributions, checks and installs the wheel, and runs `program`.
fn check_python(folder: &str, module: &str, program: &str) {
    let (package, place) = (package(folder), TempDir::new().unwrap());
    let python = peers::build().join("python");
    run(Command::new(&python)
        .args(["-m", "build", "--no-isolation", "--outdir"])
        .args([place.path(), &package]));
    only(place.path(), ".tar.gz");
    let wheel = only(place.path(), ".whl");
    run(Command::new(&python).args(["-c", CHECK]).arg(&wheel));
    let site = place.path().join("site");
    run(Command::new(python.with_file_name("pip"))
        .args(["install", "--quiet", "--no-index", "--target"])
        .args([&site, &wheel]));
    let mut installed = below(&site.join(module), &site);
    let mut expected = below(&package.join(module), &package);
    installed.sort_unstable();
    expected.sort_unstable();
    assert_eq!(installed, expected, "{module}");
    let mut check = Command::new(&python);
    let printed = run(check.args(["-B", "-c", program]).env("PYTHONPATH", &site));
    assert_eq!(printed, "it works\n");
}

#[test]
fn of_handlers_in_python() {
    let program = "
from host_jobs import MockHost, handler

@handler('words')
def words(ctx, params: str) -> int:
    return len(params.split())

assert MockHost().run(words, 'one two') == 2
print('it works')
";
    check_python("sdk/python", "host_jobs", program);
}

/// The package says that it has types: they are true, and handlers that use it pass as strict a check.
#[test]
fn of_handlers_in_python_has_types() {
    let place = TempDir::new().unwrap();
    let path = package("host/cli/src/commands/new/python/handlers.py.in");
    let template = fs::read_to_string(path).unwrap();
    let new = place.path().join("handlers.py");
    fs::write(&new, template.replace("{{name}}", "count-words")).unwrap();
    let sdk = package("sdk/python");
    for checked in [
        sdk.join("host_jobs"),
        package("examples/python/handlers.py"),
        new,
    ] {
        // Only a component has the modules that `component.py` imports.
        run(Command::new(peers::mypy().join("mypy"))
            .current_dir(place.path())
            .env("MYPYPATH", &sdk)
            .args(["--strict", "--exclude", "component.py$"])
            .arg("--cache-dir")
            .arg(peers::mypy().join("../types"))
            .arg(checked));
    }
}

#[test]
fn of_the_client_in_python() {
    let program = "
from host_jobs_client import Client, HostError

try:
    Client('http://127.0.0.1:1', patience=0).job('j')
except HostError:
    print('it works')
";
    check_python("clients/python", "host_jobs_client", program);
}
