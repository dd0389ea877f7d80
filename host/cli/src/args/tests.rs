//! The nouns of wires among those of `host`.

use host_wires::WIRES;

use super::{BEFORE_WIRES, definition, of_wires, server_last};
use crate::commands::worker::two_dashes;

#[test]
fn no_two_nouns_and_no_two_options_have_one_name() {
    definition().debug_assert();
}

#[test]
fn nouns_of_wires_stand_where_they_belong_and_say_what_they_are_for() {
    let definition = definition();
    let nouns: Vec<_> = definition.get_subcommands().collect();
    let before = nouns
        .iter()
        .position(|noun| noun.get_name() == BEFORE_WIRES);
    let first = before.unwrap() + 1;
    for (wire, noun) in of_wires().zip(&nouns[first..]) {
        assert_eq!(wire.clap().get_name(), noun.get_name());
        assert!(
            noun.get_about().is_some(),
            "{} has no help",
            noun.get_name()
        );
    }
}

#[test]
fn the_server_may_stand_first() {
    let cut = |line: &str| -> Vec<std::ffi::OsString> { line.split(' ').map(Into::into).collect() };
    for (line, expected) in [
        ("host --server X job ls", "host job ls --server X"),
        ("host --server=X deploy f", "host deploy f --server=X"),
        ("host --server X a -- b", "host a --server X -- b"),
        ("host --server X", "host --server X"),
        ("host --server", "host --server"),
        ("host job ls --server X", "host job ls --server X"),
        ("host", "host"),
    ] {
        assert_eq!(server_last(cut(line)), cut(expected), "{line}");
    }
}

#[test]
fn options_of_workers_may_have_one_dash() {
    let cut = |line: &str| -> Vec<std::ffi::OsString> { line.split(' ').map(Into::into).collect() };
    let wire = WIRES
        .iter()
        .find_map(|wire| Some((wire.name, wire.worker_role?.flags)));
    let (name, flags) = wire.unwrap();
    let flag = flags[0].flag;
    for (line, expected) in [
        (
            format!("host worker {name} -{flag} -x --{flag}"),
            format!("host worker {name} --{flag} -x --{flag}"),
        ),
        (
            format!("host worker {name} -{flag}=1 -h"),
            format!("host worker {name} --{flag}=1 -h"),
        ),
        (
            format!("host worker other -{flag}"),
            format!("host worker other -{flag}"),
        ),
        (
            format!("host serve {name} -{flag}"),
            format!("host serve {name} -{flag}"),
        ),
        ("host".to_owned(), "host".to_owned()),
    ] {
        assert_eq!(two_dashes(cut(&line).into_iter()), cut(&expected), "{line}");
    }
}
