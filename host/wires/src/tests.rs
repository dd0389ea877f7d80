//! What holds for every wire in the list.

use std::collections::BTreeSet;

use host_wire_kit::Wire;
use host_wire_sample::SAMPLE;

use crate::WIRES;

/// Every wire, and the sample as one line more.
fn wires() -> impl Iterator<Item = &'static Wire> {
    WIRES.iter().copied().chain([&SAMPLE])
}

#[test]
fn every_code_is_explained_once_and_stands_in_its_specification() {
    for wire in wires() {
        let (name, refusals) = (wire.name, wire.refusals);
        let codes: BTreeSet<&str> = refusals.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes.len(), refusals.len(), "{name}");
        assert!(!codes.is_empty(), "{name}");
        for (code, meaning) in refusals {
            let is_sentence = meaning.ends_with('.') && !meaning.contains(['|', '\n']);
            assert!(code.starts_with("E_") && is_sentence, "{code}");
            let stands = format!("`{code}`");
            assert!(wire.specification.contains(&stands), "{code}");
        }
    }
}

#[test]
fn keys_stand_below_the_wire_and_no_two_are_alike() {
    let mut keys = BTreeSet::new();
    for wire in wires() {
        let section = format!("protocol.{}.", wire.name);
        for key in wire.keys().map(|setting| setting.key) {
            assert!(key.starts_with(&section), "{key}");
            assert!(keys.insert(key), "{key}");
        }
        for flag in wire.worker_role.into_iter().flat_map(|role| role.flags) {
            let key = flag.key;
            assert!(
                flag.ignored.is_some() || keys.contains(key),
                "{} sets {key}",
                flag.flag
            );
        }
    }
}

#[test]
fn defaults_are_values_of_their_keys() {
    for setting in wires().flat_map(Wire::keys) {
        let (values, default) = (setting.values(), (setting.default)());
        let number = |text: &str| text.parse::<u64>().ok();
        let range = values
            .split_once('–')
            .and_then(|(least, most)| Some(number(least)?..=number(most)?));
        if let (Some(range), Some(default)) = (range, number(&default)) {
            assert!(range.contains(&default), "{} = {default}", setting.key);
        }
    }
}
