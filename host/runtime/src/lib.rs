//! What a process has once and tests bring themselves: the clock, ids by chance, tasks that are
//! joined, and mailboxes between threads. Each has its one home here.

pub mod clock;
pub mod ids;
pub mod lock;
pub mod mailbox;
pub mod tasks;
