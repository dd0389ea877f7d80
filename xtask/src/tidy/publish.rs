//! The crates that others depend on can be published: cargo's package is complete.

use crate::cargo::{cargo, output, root};

/// The crates, in the order of publishing, each with files that it must contain.
const PUBLISHED: &[(&str, &[&str])] = &[
    ("host-core", &["src/lib.rs"]),
    ("host-engine", &["src/lib.rs"]),
    ("host-api", &["src/lib.rs"]),
    ("host-jobs-client", &["README.md", "src/lib.rs"]),
    ("host-guest-sdk-macros", &["src/lib.rs"]),
    (
        "host-guest-sdk",
        &["README.md", "src/lib.rs", "wit/host-jobs-1.2.0/jobs.wit"],
    ),
];

#[test]
fn the_sdk_and_the_client_can_be_published() {
    let mut publish = cargo(&["publish", "--dry-run", "--no-verify", "--allow-dirty"]);
    for (package, files) in PUBLISHED {
        publish.args(["--package", package]);
        let mut list = cargo(&["package", "--list", "--allow-dirty", "--package", package]);
        let listed = output(&mut list).unwrap();
        for file in *files {
            assert!(
                listed.lines().any(|line| line == *file),
                "{package} has no {file}: {listed}"
            );
        }
    }
    output(&mut publish).unwrap();
}

#[test]
fn no_other_crate_is_published() {
    let json = output(&mut cargo(&[
        "metadata",
        "--no-deps",
        "--format-version",
        "1",
    ]));
    let metadata: serde_json::Value = serde_json::from_str(&json.unwrap()).unwrap();
    let mut published: Vec<_> = metadata["packages"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|package| package["publish"].is_null())
        .map(|package| package["name"].as_str().unwrap())
        .collect();
    published.sort_unstable();
    let mut expected: Vec<_> = PUBLISHED.iter().map(|(package, _)| *package).collect();
    expected.sort_unstable();
    assert_eq!(published, expected);
}

/// A registry shows them alone: a link to another file of the repository would lead nowhere.
#[test]
fn readmes_of_packages_have_no_links_into_the_repository() {
    for package in [
        "clients/python",
        "clients/typescript",
        "clients/rust",
        "sdk/js",
        "sdk/python",
        "guest-sdk",
    ] {
        let readme = std::fs::read_to_string(root().join(package).join("README.md")).unwrap();
        let inside: Vec<_> = readme
            .split("](")
            .skip(1)
            .filter_map(|rest| rest.split(')').next())
            .filter(|link| !link.starts_with(['#', 'h']))
            .collect();
        assert!(inside.is_empty(), "{package}: {inside:?}");
    }
}
