//! The nouns of wires among those of `host`.

use super::{BEFORE_WIRES, definition, of_wires};

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
