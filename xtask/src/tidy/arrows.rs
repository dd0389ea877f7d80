//! Who may depend on whom. Checked on each crate by itself, for features of other crates hide
//! clocks and tasks otherwise.

use crate::cargo::{cargo, output};

/// What each crate must never see, directly or through others.
const NEVER: &[(&str, &[&str])] = &[
    (
        "host-core",
        &[
            "tokio",
            "tracing",
            "rand",
            "getrandom",
            "rustix",
            "host-store",
        ],
    ),
    ("host-store", &["tokio", "wasmtime", "axum"]),
    (
        "host-http",
        &[
            "rusqlite",
            "wasmtime",
            "host-store",
            "host-cells",
            "host-dispatch",
            "host-protocols",
            "host-server",
        ],
    ),
    (
        "host-cell",
        &["rusqlite", "axum", "host-store", "host-server"],
    ),
    ("host-server", &["wasmtime", "wasmtime-wasi", "host-cell"]),
    (
        "host-protocols",
        &[
            "rusqlite",
            "wasmtime",
            "host-store",
            "host-cell",
            "host-server",
        ],
    ),
];

/// Features that would bring a clock or randomness into the rules.
const CORE_FEATURES_BANNED: &[&str] = &[
    "chrono feature \"clock\"",
    "chrono feature \"now\"",
    "uuid feature \"v4\"",
    "uuid feature \"v7\"",
    "uuid feature \"rng\"",
];

fn tree(package: &str, edges: &str) -> String {
    output(&mut cargo(&[
        "tree",
        "--quiet",
        "--edges",
        edges,
        "--prefix",
        "none",
        "--package",
        package,
    ]))
    .unwrap()
}

#[test]
fn arrows_point_to_the_core() {
    for (package, banned) in NEVER {
        let tree = tree(package, "normal");
        for name in *banned {
            let found = tree
                .lines()
                .find(|line| line.split(' ').next() == Some(name));
            assert_eq!(found, None, "{package} must never see {name}");
        }
    }
}

#[test]
fn the_rules_have_no_clock_and_no_chance() {
    let tree = tree("host-core", "normal,features");
    for feature in CORE_FEATURES_BANNED {
        assert!(!tree.contains(feature), "host-core enables {feature}");
    }
    assert!(tree.contains("uuid feature"), "the tree shows features");
}
