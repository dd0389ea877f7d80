//! A small API with all guards: two groups of routes, one of which has its own error format.

mod connections;
mod fixture;
mod gone_clients;
mod peers;
mod requests;
mod slow_clients;
