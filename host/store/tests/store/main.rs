//! Every engine against the same cases, against the model, and against kill -9.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

mod access;
mod again;
mod aside;
mod backup;
mod cascades;
mod cases;
mod changes;
mod check;
mod claims;
mod components;
mod concurrent;
mod conflicts;
mod copy;
mod database_check;
mod filters;
mod golden;
mod inputs;
mod interleavings;
mod job_batch_nodes;
mod job_batches;
mod jobs;
mod kill;
mod leases;
mod limit_cancels;
mod limit_holds;
mod limit_keys;
mod limit_nodes;
mod limit_settings;
mod limit_units;
mod limits;
mod logs;
mod nodes;
mod postgres;
mod prerequisites;
mod proxy;
mod queue_nodes;
mod retention;
mod schedule_nodes;
mod schedules;
mod server;
mod statements;
mod wal;
mod webhooks;
mod writes;
