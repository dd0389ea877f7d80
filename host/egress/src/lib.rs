//! The broker: the process that reaches servers for guests. A cell has no network. It passes each request here over a socket
//! of its run, and the broker sends what the run's manifest grants, to public addresses and to networks that the
//! configuration names, with secrets that no guest sees.
//!
//! [`child`] is the entry. `policy` decides, `allowance` counts, `dial` opens connections, `client` sends HTTP, `tcp` passes on
//! other protocols.

mod address;
mod allowance;
mod broker;
pub mod child;
mod client;
mod coding;
mod dial;
mod mask;
mod oauth;
mod permit;
mod policy;
mod secrets;
mod sigv4;
mod sql;
mod tcp;
#[cfg(test)]
mod tests;
mod trust;
