//! No circles between the modules of a crate: of two modules below the same parent, at most one uses the
//! other, even indirectly. A parent and its children may use each other. Reads the paths that begin with
//! `crate`, `super` or `self`; items that a parent re-exports count as its.

mod paths;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use super::files;

/// The path of a module in its crate; empty for the root.
type Module = Vec<String>;

/// A module below a parent, and those below the same parent that it or its children use, each with
/// one example.
type Uses = BTreeMap<String, BTreeMap<String, String>>;

/// Returns the module of a file below `src`.
fn module_of(file: &Path) -> Module {
    let mut path: Module = file
        .with_extension("")
        .iter()
        .map(|part| part.to_string_lossy().into_owned())
        .collect();
    let last = path.last().map(String::as_str);
    let is_root = path.len() == 1 && matches!(last, Some("lib" | "main"));
    if is_root || last == Some("mod") {
        path.pop();
    }
    path
}

/// Returns the modules of a crate that are not only for tests.
fn compiled(modules: &BTreeMap<Module, String>) -> BTreeMap<&Module, &str> {
    let mut tests = BTreeSet::new();
    for (module, text) in modules {
        for name in paths::test_modules(text) {
            let mut test = module.clone();
            test.push(name.to_owned());
            tests.insert(test);
        }
    }
    let is_test = |module: &Module| (1..=module.len()).any(|end| tests.contains(&module[..end]));
    let all = modules.iter().filter(|(module, _)| !is_test(module));
    all.map(|(module, text)| (module, text.as_str())).collect()
}

/// Returns the module that a path in `module` leads to, or one of its parents.
fn target(module: &Module, path: &[&str], modules: &BTreeMap<&Module, &str>) -> Module {
    let supers = path.iter().take_while(|part| **part == "super").count();
    let base = match path.first() {
        Some(&"crate") => 0,
        _ => module.len().saturating_sub(supers),
    };
    let skipped = supers.max(1);
    let mut target = module[..base].to_vec();
    target.extend(path[skipped..].iter().map(|part| (*part).to_owned()));
    while !target.is_empty() && !modules.contains_key(&target) {
        target.pop();
    }
    target
}

/// Returns, for each parent, which of its children use which others.
fn uses(modules: &BTreeMap<&Module, &str>) -> BTreeMap<Module, Uses> {
    let mut all: BTreeMap<Module, Uses> = BTreeMap::new();
    for (module, text) in modules {
        let text = paths::without_comments_and_tests(text);
        for path in paths::paths(&text) {
            let target = target(module, &path, modules);
            let same = module
                .iter()
                .zip(&target)
                .take_while(|(a, b)| a == b)
                .count();
            if let (Some(from), Some(to)) = (module.get(same), target.get(same)) {
                let shown = format!("{} uses {}", module.join("::"), target.join("::"));
                let uses = all
                    .entry(module[..same].to_vec())
                    .or_default()
                    .entry(from.clone())
                    .or_default();
                uses.entry(to.clone()).or_insert(shown);
            }
        }
    }
    all
}

/// Returns all modules that `from` uses, even indirectly.
fn reached<'a>(uses: &'a Uses, from: &str) -> BTreeSet<&'a str> {
    let mut reached = BTreeSet::new();
    let mut left: Vec<&str> = names(uses, from).collect();
    while let Some(name) = left.pop() {
        if reached.insert(name) {
            left.extend(names(uses, name));
        }
    }
    reached
}

/// Returns the modules that `from` uses itself.
fn names<'a>(uses: &'a Uses, from: &str) -> impl Iterator<Item = &'a str> {
    let targets = uses.get(from).into_iter();
    targets.flat_map(BTreeMap::keys).map(String::as_str)
}

/// Returns the uses that are part of a circle.
fn circles(modules: &BTreeMap<Module, String>) -> Vec<String> {
    let mut found = Vec::new();
    for uses in uses(&compiled(modules)).values() {
        for (from, targets) in uses {
            let in_circle = |to: &str| reached(uses, to).contains(from.as_str());
            let targets = targets.iter().filter(|(to, _)| in_circle(to));
            found.extend(targets.map(|(_, shown)| shown.clone()));
        }
    }
    found
}

/// The folders of the crates without circles.
const CHECKED: [&str; 5] = [
    "clients/",
    "examples/",
    "guest-sdk",
    "host/",
    "interpreters/",
];

#[test]
fn modules_use_each_other_in_one_direction() {
    let mut crates: BTreeMap<String, BTreeMap<Module, String>> = BTreeMap::new();
    for (path, text) in files(".rs") {
        let Some((name, file)) = path.to_str().and_then(|it| it.split_once("/src/")) else {
            continue;
        };
        if !CHECKED.iter().any(|it| name.starts_with(it)) {
            continue;
        }
        let modules = crates.entry(name.to_owned()).or_default();
        modules.insert(module_of(Path::new(file)), text);
    }
    assert!(crates.len() > 10, "all crates are read");
    let mut found = Vec::new();
    for (name, modules) in &crates {
        found.extend(circles(modules).iter().map(|it| format!("{name}: {it}")));
    }
    assert!(
        found.is_empty(),
        "modules use each other in circles; move what both need below both:\n{}",
        found.join("\n")
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    fn modules(texts: &[(&str, &str)]) -> BTreeMap<Module, String> {
        let module = |(path, text): &(&str, &str)| (module_of(Path::new(path)), (*text).to_owned());
        texts.iter().map(module).collect()
    }

    #[test]
    fn files_are_modules() {
        for (file, module) in [
            ("lib.rs", ""),
            ("a.rs", "a"),
            ("a/mod.rs", "a"),
            ("a/b.rs", "a::b"),
            ("a/main.rs", "a::main"),
        ] {
            assert_eq!(module_of(Path::new(file)).join("::"), module, "{file}");
        }
    }

    #[test]
    fn a_circle_is_found_whatever_its_length() {
        let two = modules(&[("a.rs", "use crate::b::B;"), ("b.rs", "use super::a::A;")]);
        assert_eq!(circles(&two), ["a uses b", "b uses a"]);
        let three = modules(&[
            ("a/x.rs", "use crate::b::B;"),
            ("a.rs", "mod x;"),
            ("b.rs", "use crate::{c, d};"),
            ("c.rs", "fn f() { crate::a::f() }"),
            ("d.rs", ""),
        ]);
        let expected = ["a::x uses b", "b uses c", "c uses a"];
        assert_eq!(circles(&three), expected);
    }

    #[test]
    fn children_and_tests_may_use_whom_they_want() {
        let fine = modules(&[
            ("lib.rs", "mod a; mod b; use self::a::A;"),
            (
                "a.rs",
                "mod x; use self::x::X; use crate::b::B; #[cfg(test)]\nmod tests;",
            ),
            ("a/x.rs", "use super::A;"),
            ("a/tests.rs", "use super::*; use crate::c::C;"),
            (
                "b.rs",
                "// crate::a::A\n#[cfg(test)]\nmod tests {\n    use crate::a::A;\n}\n",
            ),
            ("c.rs", "use crate::a::A;"),
        ]);
        assert_eq!(circles(&fine), [""; 0]);
    }
}
