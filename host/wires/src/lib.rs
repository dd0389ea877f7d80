//! The wires: one folder per protocol, what they are to the host (`wire`), and what they share
//! (`kit`).
//!
//! A session decides, as a pure function of its state, a message and the time; the driver moves
//! bytes. Nothing here knows the store, the cells or the server: the ways inward are the
//! ports of `host_core::port`.

#[cfg(test)]
mod histories;
pub mod kit;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod transcript;
pub mod wire;

mod arco;
mod beads;
mod delta;
mod hero;
pub mod rrq;

/// Every wire, in the order in which they are shown.
pub const WIRES: &[&wire::Wire] = &[
    &rrq::RRQ,
    &hero::HERO,
    &delta::DELTA,
    &arco::ARCO,
    &beads::BEADS,
];

#[cfg(test)]
mod tests;
