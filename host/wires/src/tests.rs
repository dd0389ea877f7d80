//! What holds for every wire in the list.

use std::collections::BTreeSet;

use host_wire_kit::Wire;
use host_wire_kit::settings::Kind;
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
        let settings = wire.settings.iter().map(|setting| setting.key);
        let tables = wire.table_settings.iter().map(|setting| setting.key);
        for key in settings.chain(tables) {
            assert!(key.starts_with(&section), "{key}");
            assert!(keys.insert(key), "{key}");
        }
        for flag in wire.worker_role.into_iter().flat_map(|role| role.flags) {
            let key = flag.setting.key;
            let is_ignored = !key.contains('.');
            assert!(is_ignored || keys.contains(key), "{} sets {key}", flag.flag);
        }
    }
}

#[test]
fn defaults_are_values_of_their_keys() {
    for setting in wires().flat_map(|wire| wire.settings) {
        let is_in_range = |number: u64| setting.range().contains(&number);
        let is_value = match setting.kind {
            Kind::Text(_) | Kind::List(_) => true,
            Kind::Switch => setting.default == "false",
            Kind::Number(..) | Kind::Seconds(_) => setting.default.parse().is_ok_and(is_in_range),
        };
        assert!(is_value, "{} = {}", setting.key, setting.default);
    }
}
