//! `host build --test` runs the tests of a project in a component: what passes on this machine and would fail in a job fails
//! there, with one clear sentence and the author's lines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use host_tests::projects;
use host_tests::server::host;
use serde_json::Value;
use tempfile::TempDir;

/// A project of `host new` with other files.
struct Project {
    _folder: TempDir,
    dir: PathBuf,
}

impl Project {
    fn make(lang: &str, files: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().unwrap();
        let dir = folder.path().join("tested");
        let mut new = Command::new(host());
        new.args(["new", "tested", "--lang", lang, "--quiet", "--dir"]);
        assert!(new.arg(&dir).output().unwrap().status.success());
        let project = Self {
            _folder: folder,
            dir,
        };
        project.write(files);
        project
    }

    fn write(&self, files: &[(&str, &str)]) {
        for (path, text) in files {
            let path = self.dir.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    fn build(&self, options: &[&str]) -> Command {
        let mut command = projects::build(&self.dir);
        command.args(options);
        command
    }

    fn assert_passes(&self, options: &[&str]) -> String {
        let ran = self.build(options).output().unwrap();
        let shown = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert!(ran.status.success(), "{shown}");
        shown
    }

    /// Returns how its tests end, of which some must fail.
    fn failing(&self) -> TestEnds {
        let ran = self.build(&["-o", "json"]).output().unwrap();
        let shown = String::from_utf8_lossy(&ran.stderr).into_owned();
        assert_eq!(ran.status.code(), Some(1), "{shown}");
        assert!(!Path::new(&self.dir).join("target/tested.wasm").exists());
        let document: Value = serde_json::from_slice(&ran.stdout).unwrap();
        TestEnds { document, shown }
    }
}

struct TestEnds {
    document: Value,
    shown: String,
}

impl TestEnds {
    fn find(&self, name: &str) -> &Value {
        let mut tests = self.document["tests"].as_array().unwrap().iter();
        tests
            .find(|test| test["name"] == name)
            .unwrap_or_else(|| panic!("{name}: {}", self.document))
    }

    fn assert_fails(&self, name: &str, parts: &[&str]) {
        let test = self.find(name);
        assert_eq!(test["outcome"], "failed", "{test}");
        for part in parts {
            assert!(test["message"].as_str().unwrap().contains(part), "{test}");
            let last = part.lines().last().unwrap();
            assert!(self.shown.contains(last), "{part}: {}", self.shown);
        }
    }

    fn assert_passed(&self, names: &[&str]) {
        for name in names {
            let test = self.find(name);
            assert_eq!(test["outcome"], "passed", "{test}");
        }
    }

    fn assert_skipped(&self, name: &str, why: &str) {
        let test = self.find(name);
        assert_eq!(test["outcome"], "skipped", "{test}");
        assert_eq!(test["message"], why, "{test}");
    }
}

#[test]
fn python() {
    let project = Project::make(
        "python",
        &[
            (
                "handlers.py",
                include_str!("in_component/python/handlers.py"),
            ),
            (
                "test_handlers.py",
                include_str!("in_component/python/test_handlers.py"),
            ),
            ("rows.csv", "a,b\n"),
        ],
    );
    let shown = project.assert_passes(&["--local"]);
    assert!(
        shown.contains("passed: test_handlers.test_a_function"),
        "{shown}"
    );
    fs::remove_file(project.dir.join("target/tested.wasm")).unwrap();
    project.write(&[
        (
            "tests/test_more.py",
            include_str!("in_component/python/more.py"),
        ),
        (
            "tests/beside.py",
            include_str!("in_component/python/beside.py"),
        ),
        ("tests/test_broken.py", "import nowhere\n"),
    ]);
    let tests = project.failing();
    let own = |name: &str| format!("test_handlers.{name}");
    tests.assert_fails(
        &own("Handlers.test_a_late_import_only_here"),
        &[
            "File \"handlers.py\", line 13, in late",
            "A component does not have the module socketserver.",
        ],
    );
    tests.assert_fails(
        &own("Handlers.test_a_thread_only_here"),
        &["a component has one thread"],
    );
    tests.assert_fails(
        &own("Handlers.test_a_file_only_here"),
        &["`files` in pyproject.toml names them."],
    );
    tests.assert_skipped(&own("Handlers.test_skipped"), "not today");
    let passed = [
        "Handlers.test_each_number",
        "Handlers.test_logs",
        "Waiting.test_a_method_may_be_async",
        "test_a_function",
        "test_a_file_of_the_tests",
        "test_an_async_function",
    ];
    for name in passed {
        tests.assert_passed(&[&own(name)]);
    }
    tests.assert_passed(&[
        "tests.test_more.Numbers.test_remembers",
        "tests.test_more.test_remembers",
    ]);
    tests.assert_fails(
        "tests.test_more.Numbers.test_sum",
        &[
            "File \"tests/test_more.py\", line 16, in test_sum",
            "sums are off",
        ],
    );
    let log = &tests.find("tests.test_more.Numbers.test_sum")["log"];
    assert_eq!(log[0], "printed before it fails", "{log}");
    tests.assert_fails("tests.test_more.TestPlain", &["no unittest.TestCase"]);
    tests.assert_fails(
        "tests.test_more.test_fixture",
        &["test_fixture has the parameter tmp_path: fixtures are not supported"],
    );
    tests.assert_fails("tests.test_broken", &["No module named 'nowhere'"]);
    assert!(!tests.shown.contains("host_jobs/"), "{}", tests.shown);
}

const JAVASCRIPT: [(&str, &str); 3] = [
    ("handlers.js", include_str!("in_component/js/handlers.js")),
    (
        "handlers.test.js",
        include_str!("in_component/js/handlers.test.js"),
    ),
    ("rows.csv", "a,b\n"),
];

const MORE: [(&str, &str); 1] = [("more.test.js", include_str!("in_component/js/more.test.js"))];

fn assert_in_component(project: &Project) {
    let tests = project.failing();
    let own = |name: &str| format!("handlers.test.js > {name}");
    tests.assert_fails(
        &own("a file, only here"),
        &[
            "node:fs is not there in a component: it needs a file system of Node",
            "(handlers.js:9)",
        ],
    );
    tests.assert_fails(&own("a folder, only here"), &["(handlers.test.js:16)"]);
    let passed = [
        "a file of the tests",
        "strict is strict",
        "hooks > of suites within suites > run in their order",
        "a test may have parts",
        "a test may call back",
        "functions are mocked",
    ];
    for name in passed {
        tests.assert_passed(&[&own(name)]);
    }
    tests.assert_skipped(&own("skipped > is not run"), "not today");
    tests.assert_skipped(&own("to do"), "todo");
    tests.assert_passed(&[
        "more.test.js > remembers nothing",
        "more.test.js > remembers nothing of another test",
    ]);
    tests.assert_fails("more.test.js > fails", &["(more.test.js:17)"]);
    let log = &tests.find("more.test.js > fails")["log"];
    assert_eq!(log[0], "printed before it fails", "{log}");
    tests.assert_fails("more.test.js > a part fails", &["RangeError: off"]);
}

#[test]
fn javascript() {
    let project = Project::make("js", &JAVASCRIPT);
    project.assert_passes(&["--local"]);
    fs::remove_file(project.dir.join("target/tested.wasm")).unwrap();
    project.write(&MORE);
    let ran = project.build(&["--local"]).output().unwrap();
    let shown = String::from_utf8_lossy(&ran.stderr);
    assert_eq!(ran.status.code(), Some(1), "{shown}");
    assert!(shown.contains("more.test.js:17:"), "{shown}");
    assert_in_component(&project);
}

#[test]
fn starlingmonkey() {
    let project = Project::make("js", &JAVASCRIPT);
    let package = projects::starlingmonkey("tested", "javascript");
    project.write(&[("package.json", &package)]);
    project.write(&MORE);
    assert_in_component(&project);
}

#[test]
fn what_is_new_passes() {
    for lang in ["python", "js", "ts"] {
        let shown = Project::make(lang, &[]).assert_passes(&[]);
        assert!(
            shown.contains("tests: 3 passed, 0 failed, 0 skipped in"),
            "{shown}"
        );
    }
}
