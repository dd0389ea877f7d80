//! Stores of a host: SQLite, and PostgreSQL for several hosts that share a store. Each keeps rows and runs the rules of
//! `host-engine` inside its own transaction; one conformance suite tests all. This crate knows no wire, no cell and no
//! clock.

mod aside;
pub mod copy;
mod finding;
mod held_keys;
mod judge;
pub mod logs;
mod parts;
pub mod postgres;
mod ready;
mod record;
mod scan;
pub mod sqlite;
mod start;
mod statement;

pub use aside::{Keep, SetAside};
pub use finding::Finding;
pub use sqlite::backup;
pub use sqlite::check::check;
pub use sqlite::logs::check as check_logs;
