//! The rules of names and the files of a new handler.

use clap::ValueEnum as _;

use super::{Lang, parse_name};

#[test]
fn names_are_those_of_crates_and_handlers() {
    for good in ["a", "word-count", "w0rd_count"] {
        assert_eq!(parse_name(good).as_deref(), Ok(good));
        good.parse::<host_core::name::Name>().unwrap();
    }
    for bad in [
        "",
        "Word",
        "1st",
        "-a",
        "a b",
        "a/b",
        "fn",
        "self",
        "std",
        "guest-sdk",
        "ä",
    ] {
        assert!(parse_name(bad).is_err(), "{bad}");
    }
}

#[test]
fn the_names_taken_are_sorted() {
    assert!(super::NAMES_TAKEN.is_sorted());
}

#[test]
fn templates_have_no_other_holes() {
    for lang in Lang::value_variants() {
        for (path, text) in lang.template() {
            let filled = text.replace("{{name}}", "").replace("{{function}}", "");
            assert!(!filled.contains("{{"), "{lang:?}: {path}");
        }
    }
}
