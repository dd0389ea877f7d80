//! The broker: the process that sends requests of guests to HTTP servers. A cell has no network. It passes each
//! request here over a socket of its run, and the broker sends what the run's manifest grants, to public
//! addresses and to networks that the configuration names, with secrets that no guest sees.
//!
//! [`child`] is the entry. `policy` decides, `allowance` counts, `dial` opens connections, `client` sends.

mod address;
mod allowance;
mod broker;
pub mod child;
mod client;
mod dial;
mod mask;
mod permit;
mod policy;
#[cfg(test)]
mod tests;
mod trust;
