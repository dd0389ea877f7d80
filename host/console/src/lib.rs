//! The shared parts of the commands of `host`: options, errors with exit codes, and output in four formats.
//! This crate knows no command and no wire.

mod closed;
pub mod command;
pub mod contexts;
pub mod error;
pub mod human;
pub mod ids;
pub mod input;
pub mod interrupt;
pub mod json;
pub mod options;
pub mod output;
pub mod plain;
pub mod progress;
pub mod table;
pub mod waiting;
