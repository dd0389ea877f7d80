//! An HTTP server for any API: limits on connections and headers, a memory budget for bodies, a time limit
//! for answers, and no access from web pages of other origins. It knows neither jobs nor error formats:
//! callers pass in groups of routes, and each group renders its own refusals. `problem`, `extract` and
//! `query` are for JSON APIs that use problem documents.

pub mod budget;
pub mod door;
pub mod extract;
pub mod gate;
pub mod guard;
mod heads;
pub mod json;
pub mod metrics;
pub mod peer;
mod places;
pub mod problem;
mod problem_stream;
pub mod proxies;
pub mod query;
pub mod refusal;
mod requests;
pub mod route;
pub mod router;
pub mod serve;
pub mod share;
pub mod tls;
mod watch;
mod write_timeout;

#[cfg(test)]
mod tests;
