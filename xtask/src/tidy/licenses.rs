//! Every crate we link has a licence that the project may use, and none is banned.

use serde_json::Value;

use crate::cargo::{cargo, output, root};

const BANNED: &[&str] = &["openssl", "openssl-sys", "native-tls"];

/// Reads the list between `allow = [` and `]` of `deny.toml`, its only home.
fn allowed() -> Vec<String> {
    let deny = std::fs::read_to_string(root().join("deny.toml")).unwrap();
    let list = deny
        .split_once("allow = [")
        .unwrap()
        .1
        .split_once(']')
        .unwrap()
        .0;
    list.split(',')
        .map(|item| item.trim().trim_matches('"').to_owned())
        .filter(|item| !item.is_empty())
        .collect()
}

/// Returns whether `allowed` satisfies an SPDX expression of `OR`, `AND` and parentheses.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    let flat = expression.replace(['(', ')'], " ").replace('/', " OR ");
    flat.split(" AND ").all(|all| {
        all.split(" OR ")
            .any(|one| allowed.iter().any(|name| name == one.trim()))
    })
}

#[test]
fn licences_are_allowed_and_no_crate_is_banned() {
    let json = output(&mut cargo(&["metadata", "--format-version", "1"])).unwrap();
    let metadata: Value = serde_json::from_str(&json).unwrap();
    let allowed = allowed();
    let packages = metadata["packages"].as_array().unwrap();
    assert!(packages.len() > 50, "the whole tree is read");
    for package in packages {
        let name = package["name"].as_str().unwrap();
        assert!(!BANNED.contains(&name), "{name} is banned");
        let license = package["license"].as_str().unwrap_or("none");
        assert!(
            is_allowed(license, &allowed),
            "{name} has the licence {license}"
        );
    }
}

#[test]
fn expressions_are_read() {
    let allowed = ["MIT".to_owned(), "Zlib".to_owned()];
    for (expression, expected) in [
        ("MIT", true),
        ("MIT OR GPL-3.0", true),
        ("GPL-3.0/MIT", true),
        ("(MIT OR Apache-2.0) AND Zlib", true),
        ("MIT AND GPL-3.0", false),
        ("none", false),
    ] {
        assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
    }
}
