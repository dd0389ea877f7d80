//! What a process has once and tests provide themselves: the clock, random ids, tasks that are
//! joined, mailboxes between threads, and the signals to stop. Also the lock of the data directory, the
//! folders below which files are opened, and how long cells may run guests.

pub mod clock;
pub mod folder;
pub mod ids;
pub mod lifeline;
pub mod lock;
pub mod mailbox;
pub mod stops;
pub mod tasks;
