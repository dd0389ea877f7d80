//! What a process has once and tests provide themselves: the clock, random ids, tasks that are
//! joined, mailboxes between threads, and the signals to stop. Also the lock of the data directory, the
//! folders below which files are opened, how long cells may run guests, and the slots of workers that
//! wires send attempts to.

pub mod clock;
pub mod folder;
pub mod ids;
pub mod lifeline;
pub mod lock;
pub mod mailbox;
pub mod slots;
pub mod stops;
pub mod tasks;
