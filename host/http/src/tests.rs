//! A small API with all guards: two groups of routes, one of which has its own error format.

pub(crate) mod certificates;
mod connections;
mod crowds;
mod doors;
mod fixture;
mod gone_clients;
mod peers;
mod requests;
mod slow_clients;
mod tls;
