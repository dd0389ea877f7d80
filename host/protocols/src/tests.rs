//! What holds for every wire in the list.

use std::collections::BTreeSet;

use super::ADAPTERS;

#[test]
fn every_code_is_explained_once_and_stands_in_its_specification() {
    for adapter in ADAPTERS {
        let spec = match adapter.name {
            "hero" => include_str!("hero/SPEC.md"),
            "rrq" => include_str!("rrq/SPEC.md"),
            other => panic!("{other} has no specification"),
        };
        let codes: BTreeSet<&str> = adapter.codes.iter().map(|(code, _)| *code).collect();
        assert_eq!(codes.len(), adapter.codes.len(), "{}", adapter.name);
        assert!(!codes.is_empty(), "{}", adapter.name);
        for (code, meaning) in adapter.codes {
            let is_sentence = meaning.ends_with('.') && !meaning.contains(['|', '\n']);
            assert!(code.starts_with("E_") && is_sentence, "{code}");
            assert!(spec.contains(&format!("`{code}`")), "{code}");
        }
    }
}
