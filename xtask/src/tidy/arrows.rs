//! Who may depend on whom. Each crate is checked by itself: the features of other crates would hide
//! clocks and tasks.

use std::path::Path;

use crate::cargo::{cargo, output, root};

/// A crate that another must not depend on.
struct Rule {
    package: &'static str,
    /// Neither directly nor through others.
    never: &'static [&'static str],
    /// Not directly. Its dependencies may use it internally.
    never_directly: &'static [&'static str],
}

const API: &str = "host-api";
const ENGINE: &str = "host-engine";
const DISPATCH: &str = "host-dispatch";
const WIRES: &str = "host-wires";
const KIT: &str = "host-wire-kit";
const SERVER: &str = "host-server";

const RULES: &[Rule] = &[
    Rule {
        package: "host-core",
        never: &["tokio", "tracing", "rand", "getrandom", "rustix"],
        never_directly: &[],
    },
    // Nor does what applies commands: each store brings its rows.
    Rule {
        package: ENGINE,
        never: &[
            "tokio",
            "tracing",
            "rand",
            "getrandom",
            "rustix",
            "rusqlite",
        ],
        never_directly: &[],
    },
    Rule {
        package: "host-runtime",
        never: &["axum", "hyper", "rusqlite", "redis", "toml", "clap"],
        never_directly: &[],
    },
    Rule {
        package: API,
        never: &["tokio", "axum", "hyper", "clap"],
        never_directly: &[],
    },
    Rule {
        package: "host-console",
        never: &["tokio", "axum", "rusqlite", "redis", "host-runtime"],
        never_directly: &[],
    },
    // Its traits are synchronous, and hide the PostgreSQL client, which is not.
    Rule {
        package: "host-store",
        never: &["axum", "hyper", "redis", "toml", "clap", "host-runtime"],
        never_directly: &[],
    },
    Rule {
        package: "host-outbox",
        never: &["axum", "hyper", "redis", "toml", "clap"],
        never_directly: &["rusqlite"],
    },
    Rule {
        package: TESTING,
        never: &["axum", "hyper", "redis", "toml", "clap"],
        never_directly: &[],
    },
    Rule {
        package: "host-toolchain",
        never: &["tokio", "clap", "serde", "toml"],
        never_directly: &[],
    },
    Rule {
        package: "host-cell",
        // Without TLS there is no sender of `wasmtime-wasi-http`.
        never: &[
            "rusqlite",
            "axum",
            "redis",
            "rustls",
            "toml",
            "webpki-roots",
            "host-runtime",
        ],
        never_directly: &[],
    },
    Rule {
        package: "host-confine",
        never: &["tokio", "hyper", "wasmtime"],
        never_directly: &[],
    },
    // It holds secrets and parses what servers answer: nothing else belongs in its process.
    Rule {
        package: "host-egress",
        never: &["rusqlite", "axum", "redis", "toml", "clap", "wasmtime"],
        never_directly: &[],
    },
    Rule {
        package: "host-cells",
        never: &["rusqlite", "axum", "hyper", "redis", "clap"],
        never_directly: &[],
    },
    Rule {
        package: DISPATCH,
        never: &["axum", "hyper", "redis", "clap"],
        // `host-cells` reads manifests, which are TOML.
        never_directly: &["toml", "rusqlite"],
    },
    // It uses host-core only for the clock's trait, words about JSON, durations and the size of a page, nothing
    // about jobs.
    Rule {
        package: "host-http",
        never: &["rusqlite", "redis", "toml", "clap"],
        never_directly: &[],
    },
    // It asks the API, whatever that does.
    Rule {
        package: "host-web",
        never: &["rusqlite", "redis", "toml", "clap", "wasmtime"],
        never_directly: &["tokio", "hyper"],
    },
    // What only some wires need is a feature.
    Rule {
        package: KIT,
        never: &["rusqlite", "axum", "hyper", "redis", "clap"],
        never_directly: &[],
    },
    Rule {
        package: WIRES,
        never: &["rusqlite"],
        never_directly: &["axum", "hyper", "redis", "clap", "tokio", ENGINE],
    },
    Rule {
        package: SERVER,
        never: &[],
        // Wires have commands, and one uses Redis.
        never_directly: &["clap", "rusqlite", "redis"],
    },
];

/// What a wire may see: `host-console` for its commands and `host-http` for its routes, but no other wire. The API links
/// the engine.
const WIRE_MAY_SEE: &[&str] = &[
    "host-core",
    API,
    ENGINE,
    "host-runtime",
    "host-http",
    "host-console",
    KIT,
];

/// What a wire links only if its own manifest says so.
const WIRE_LINKS_FOR_ITSELF: &[&str] = &["axum", "redis", "clap"];

/// The workspace crates that a crate may depend on, also indirectly. Wires are not listed: each may see
/// [`WIRE_MAY_SEE`].
const MAY_SEE: &[(&str, &[&str])] = &[
    ("host-core", &[]),
    ("host-toolchain", &[]),
    (ENGINE, &["host-core"]),
    (API, &["host-core", ENGINE]),
    ("host-runtime", &["host-core"]),
    ("host-console", &["host-core", ENGINE, API]),
    ("host-store", &["host-core", ENGINE]),
    (
        "host-outbox",
        &["host-core", ENGINE, "host-runtime", "host-store"],
    ),
    ("host-confine", &["host-core"]),
    ("host-cell", &["host-core", "host-confine"]),
    ("host-egress", &["host-core", "host-confine"]),
    ("host-cells", &["host-core", ENGINE, "host-runtime"]),
    (TESTING, &["host-core", ENGINE, "host-runtime"]),
    (
        DISPATCH,
        &[
            "host-core",
            ENGINE,
            "host-runtime",
            "host-store",
            "host-cells",
        ],
    ),
    ("host-http", &["host-core", "host-runtime"]),
    (
        "host-web",
        &["host-core", ENGINE, API, "host-runtime", "host-http"],
    ),
    (KIT, &["host-core", "host-runtime"]),
    (WIRES, WIRE_MAY_SEE),
    (
        SERVER,
        &[
            "host-core",
            ENGINE,
            API,
            "host-runtime",
            "host-store",
            "host-cells",
            DISPATCH,
            "host-http",
            "host-console",
            "host-web",
            KIT,
            WIRES,
            "host-outbox",
        ],
    ),
];

/// The binary, which puts all crates together.
const BINARY: &str = "host";

/// Crates for tests only.
const TESTING: &str = "host-testing";

/// The only crate that runs guests. The binary starts it, and the bench measures it.
const CELL: &str = "host-cell";
const ENGINES: &[&str] = &["wasmtime", "wasmtime-wasi"];

/// Features that would bring a clock or randomness into the rules.
const CORE_FEATURES_BANNED: &[&str] = &[
    "chrono feature \"clock\"",
    "chrono feature \"now\"",
    "uuid feature \"v4\"",
    "uuid feature \"v7\"",
    "uuid feature \"rng\"",
];

fn tree(package: &str, edges: &str, depth: &str) -> String {
    output(&mut cargo(&[
        "tree",
        "--quiet",
        "--edges",
        edges,
        "--prefix",
        "none",
        "--depth",
        depth,
        "--package",
        package,
    ]))
    .unwrap()
}

/// Returns the names of a crate's dependencies up to a depth.
fn seen(package: &str, depth: &str) -> Vec<String> {
    tree(package, "normal", depth)
        .lines()
        .skip(1)
        .filter_map(|line| line.split(' ').next())
        .map(str::to_owned)
        .collect()
}

/// Returns the names of the crates below `host/`, those of the wires included.
fn packages() -> Vec<String> {
    let mut packages = packages_in("host");
    packages.extend(packages_in("host/wires"));
    assert!(packages.iter().any(|name| is_wire(name)), "wires are read");
    packages
}

/// Returns the names of the crates in the folders of `parent`.
fn packages_in(parent: &str) -> Vec<String> {
    let folders = std::fs::read_dir(root().join(parent)).unwrap();
    folders
        .filter_map(|folder| package_of(&folder.unwrap().path()))
        .collect()
}

fn package_of(folder: &Path) -> Option<String> {
    let manifest = std::fs::read_to_string(folder.join("Cargo.toml")).ok()?;
    let name = manifest
        .lines()
        .find_map(|line| line.strip_prefix("name = "));
    Some(name.unwrap().trim_matches('"').to_owned())
}

fn is_wire(package: &str) -> bool {
    package.starts_with("host-wire-") && package != KIT
}

#[test]
fn arrows_point_to_the_core() {
    for rule in RULES {
        let package = rule.package;
        for (banned, depth) in [(rule.never, "999"), (rule.never_directly, "1")] {
            let seen = seen(package, depth);
            for name in banned {
                let found = seen.iter().find(|it| it == name);
                assert_eq!(found, None, "{package} must not depend on {name}");
            }
        }
    }
}

#[test]
fn each_crate_sees_only_those_below_it() {
    let packages = packages();
    let is_one = |name: &&String| *name != BINARY && !is_wire(name);
    for package in packages.iter().filter(is_one) {
        let may_see = MAY_SEE.iter().find(|(name, _)| name == package);
        let Some((_, may_see)) = may_see else {
            panic!("{package} is new: list in MAY_SEE which crates it may depend on");
        };
        let sees_wires = [WIRES, SERVER].contains(&&**package);
        for name in seen(package, "999") {
            let is_ours = packages.contains(&name) && name != *package;
            let may_see = may_see.contains(&&*name) || (sees_wires && is_wire(&name));
            assert!(!is_ours || may_see, "{package} must not depend on {name}");
        }
        let ruled = RULES.iter().any(|rule| rule.package == package);
        assert!(
            ruled,
            "{package} is new: list in RULES what it must not depend on"
        );
    }
}

#[test]
fn no_wire_links_what_another_needs() {
    let packages = packages();
    for wire in packages.iter().filter(|name| is_wire(name)) {
        let direct = seen(wire, "1");
        let all = seen(wire, "999");
        for name in &all {
            let is_ours = packages.contains(name) && name != wire;
            let may_see = WIRE_MAY_SEE.contains(&&**name);
            assert!(!is_ours || may_see, "{wire} must not depend on {name}");
        }
        for name in WIRE_LINKS_FOR_ITSELF {
            let is_linked = all.iter().any(|it| it == name);
            let is_direct = direct.iter().any(|it| it == name);
            assert!(!is_linked || is_direct, "{wire} links {name} for others");
        }
        let is_direct = direct.iter().any(|it| it == ENGINE);
        assert!(!is_direct, "{wire} knows commands: use the ports");
    }
}

#[test]
fn only_cells_see_the_engine() {
    for package in packages() {
        let direct = seen(&package, "1");
        let all = seen(&package, "999");
        for engine in ENGINES {
            let is_seen = all.iter().any(|it| it == engine);
            let may_see = package == CELL || package == BINARY;
            assert!(!is_seen || may_see, "{package} must not depend on {engine}");
            let is_direct = direct.iter().any(|it| it == engine);
            assert!(!is_direct || package == CELL, "{package} names {engine}");
        }
    }
}

#[test]
fn doubles_are_in_no_release() {
    assert!(!seen(BINARY, "999").iter().any(|it| it == TESTING));
}

#[test]
fn the_rules_have_no_clock_and_no_chance() {
    for package in ["host-core", ENGINE] {
        let tree = tree(package, "normal,features", "999");
        for feature in CORE_FEATURES_BANNED {
            assert!(!tree.contains(feature), "{package} enables {feature}");
        }
        assert!(tree.contains("uuid feature"), "the tree shows features");
    }
}
