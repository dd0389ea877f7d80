//! The codes by which wires other than HTTP refuse what peers send: each wire has its own list, and
//! wires may share a code.

use std::collections::BTreeMap;

use host_wires::WIRES;

/// The advice for all of them.
pub const NEXT: &str = "Correct what the peer sends. `host_wire_refusals_total` of /metrics counts \
    refusals by wire and code.";

/// A few words for any of them.
pub const TITLE: &str = "Refused on a wire";

/// One code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WireCode {
    /// The stable code.
    pub code: &'static str,
    /// Each wire that has it, by name, and what it means there.
    pub on: Vec<(&'static str, &'static str)>,
}

/// Returns all codes by their names.
pub fn list() -> impl Iterator<Item = WireCode> {
    let mut codes: BTreeMap<&str, WireCode> = BTreeMap::new();
    for wire in WIRES {
        for (code, meaning) in wire.refusals {
            let known = codes.entry(code).or_insert_with(|| WireCode {
                code,
                on: Vec::new(),
            });
            known.on.push((wire.name, meaning));
        }
    }
    codes.into_values().map(|mut known| {
        known.on.sort_unstable();
        known
    })
}

/// Returns what a code means on the wires that have it, `None` if there is no such code.
pub fn explain(code: &str) -> Option<WireCode> {
    list().find(|known| known.code == code)
}
