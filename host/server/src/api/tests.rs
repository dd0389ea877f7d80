//! The API in memory, over a small but real loop that commits each command to the memory store.

mod access;
mod access_model;
mod audit;
mod deployed;
mod desk;
mod enqueue;
mod events;
mod fixture;
mod host;
mod job_batches;
mod jobs;
mod lifetimes;
mod limit_keys;
mod nodes;
mod queues;
mod quotas;
mod retention;
mod retry;
mod runners;
mod sample_executors;
mod schedules;
mod serve;
mod sessions;
mod traces;
mod unique;
mod verbs_doc;
