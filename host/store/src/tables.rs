//! The tables of a store: one description for each cold thing.

pub mod audit;
pub mod component;
pub mod job_batch;
pub mod limit;
pub mod schedule;
pub mod state;
pub mod token;

use crate::table::Table;

/// The tables. Tests compare the rows of all stores.
pub static TABLES: [&Table; 12] = [
    &component::COMPONENTS,
    &component::REVISIONS,
    &component::BLOBS,
    &state::STATE,
    &state::SPACES,
    &token::TOKENS,
    &audit::AUDIT,
    &schedule::SCHEDULES,
    &schedule::FIRINGS,
    &limit::LIMITS,
    &limit::LIMIT_KEYS,
    &job_batch::BATCHES,
];
