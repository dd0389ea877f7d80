//! The list of wires. Each is a crate in a folder beside this one; `host-wire-kit` says what a wire is, and
//! `host/wires/sample` is the one to read first.

use std::collections::BTreeMap;

use host_core::chain::ChainKind;
use host_core::name::Name;
use host_wire_kit::Wire;

/// Every wire, in the order in which users see them.
pub const WIRES: &[&Wire] = &[
    &host_wire_rrq::RRQ,
    &host_wire_hero::HERO,
    &host_wire_delta::DELTA,
    &host_wire_arco::ARCO,
    &host_wire_beads::BEADS,
];

/// Returns the wire of this name.
pub fn find(name: &str) -> Option<&'static Wire> {
    WIRES.iter().find(|wire| wire.name == name).copied()
}

/// Returns the handlers of all wires that run other handlers in their attempts, and how.
pub fn chain_handlers() -> BTreeMap<Name, ChainKind> {
    let handlers = WIRES.iter().flat_map(|wire| wire.chain_handlers);
    let named = handlers.filter_map(|(name, kind)| Some((name.parse().ok()?, *kind)));
    named.collect()
}

#[cfg(test)]
mod tests;
