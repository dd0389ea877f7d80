//! Serving HTTP well, whatever is served: connections and headers with limits, bodies with a
//! budget, answers with a timeout, and no access for web pages of other origins. It knows no job
//! and no error format: callers hand in routes in groups, and each group renders its own refusals.
//! `problem`, `extract` and `query` are for JSON APIs whose errors are problem documents.

pub mod budget;
pub mod extract;
pub mod guard;
pub mod json;
pub mod metrics;
pub mod problem;
pub mod query;
pub mod refusal;
pub mod route;
pub mod router;
pub mod serve;
mod write_timeout;

#[cfg(test)]
mod tests;
