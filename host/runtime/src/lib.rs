//! What a process has once and tests provide themselves: the clock, random ids, tasks that are joined,
//! mailboxes between threads, the log, signals, and the first process of a container. Also locks the data
//! directory, opens files below folders, acts as the owner of a folder, listens on Unix sockets, limits how long
//! cells may run guests, remembers leases, and counts the slots of workers that wires send attempts to.

pub mod backoff;
pub mod clock;
pub mod file;
pub mod folder;
pub mod ids;
pub mod init;
pub mod lease_book;
pub mod lifeline;
pub mod lock;
pub mod log;
pub mod mailbox;
pub mod owner;
pub mod slots;
pub mod socket;
pub mod stops;
pub mod tasks;
