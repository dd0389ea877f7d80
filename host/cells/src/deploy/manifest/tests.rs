//! Valid and invalid manifests.

use super::*;

#[test]
fn what_is_out_of_range_is_named() {
    #[rustfmt::skip]
    let table = [
        ("", None),
        ("[defaults]\nmemory_mib = 64\ntimeout_seconds = 0.5", None),
        ("[defaults]\nmemory_mib = 0", Some("[defaults]: memory_mib = 0, 1 to 4096 is taken")),
        ("[defaults]\nmemory_mib = 4097", Some("[defaults]: memory_mib = 4097, 1 to 4096 is taken")),
        ("[handlers.a]\nresult_kib = 16385", Some("[handlers.a]: result_kib = 16385, 0 to 16384 is taken")),
        ("[defaults]\nfuel = 0", Some("[defaults]: fuel = 0, 1 to 9223372036854775807 is taken")),
        ("[defaults]\ntimeout_seconds = 0", Some("[defaults]: timeout_seconds = 0, 0.001 or more is taken")),
        ("[defaults]\nretention_seconds = 1\nretention_discarded_seconds = 7776000", None),
        ("[defaults]\nretention_seconds = 0.5", Some("[defaults]: retention_seconds = 0.5, 1 or more is taken")),
        ("[handlers.a]\nretention_discarded_seconds = 0",
            Some("[handlers.a]: retention_discarded_seconds = 0, 1 or more is taken")),
        ("[defaults]\nenv = [\"A=B\"]", Some("[defaults]: env = \"A=B\", a name of letters, digits and _ is taken")),
        ("[defaults]\nread_dirs = [{ host = \"/a/../b\", guest = \"/b\" }]",
            Some("[defaults]: read_dirs = \"/a/../b\", an absolute path without `..` is taken")),
        ("[defaults]\nread_dirs = [{ host = \"/a\", guest = \"b\" }]",
            Some("[defaults]: read_dirs = \"b\", an absolute path without `..` is taken")),
    ];
    for (text, refusal) in table {
        let checked = parse(text).and_then(|manifest| check(&manifest));
        let said = checked.err().map(|error| error.to_string());
        assert_eq!(said.as_deref(), refusal, "{text}");
    }
}

#[test]
fn what_no_manifest_has_is_named_with_its_place() {
    for (text, names) in [
        ("[defaults]\nmemory = 64", "memory"),
        ("nmae = \"a\"", "nmae"),
        ("name = \"a b\"", "name"),
        (
            "[defaults]\nmemory_mib = -1",
            "integer `-1`, expected a whole number that is not negative",
        ),
        ("defaults = 3", "integer `3`, expected a table"),
        (
            "[defaults]\nread_dirs = [\"/a\"]",
            "string \"/a\", expected a table",
        ),
        ("[handlers.\"a b\"]\nfuel = 1", "a b"),
        ("[", "line 1"),
    ] {
        let said = parse(text).unwrap_err().to_string();
        assert!(said.contains(names), "{text}: {said}");
    }
}

#[test]
fn a_section_without_a_handler_is_refused() {
    let manifest = parse("[handlers.a]\nfuel = 1\n[handlers.b]\nfuel = 1").unwrap();
    let handler = |name: &str| HandlerInfo {
        name: name.parse().unwrap(),
        description: None,
        params_schema: None,
        result_schema: None,
    };
    assert_eq!(fits(&manifest, &[handler("a"), handler("b")]), Ok(()));
    let said = fits(&manifest, &[handler("a"), handler("c")])
        .unwrap_err()
        .to_string();
    assert!(
        said.contains("handler b") && said.contains("a, c"),
        "{said}"
    );
}
