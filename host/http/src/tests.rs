//! A small API behind all guards: two groups of routes, one of which has error bodies of its own.

mod connections;
mod fixture;
mod requests;
mod slow_clients;
