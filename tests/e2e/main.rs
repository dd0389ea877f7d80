//! The real program, end to end: each file is one promise.

#![expect(clippy::unwrap_used, reason = "a test ends where it fails")]

mod deploy;
mod durability;
mod fixture;
mod garbage;
mod hostile;
mod life;
mod rrq_garbage;
mod rrq_load;
mod rrq_worker;
mod run;
mod runners;
mod scripts;
mod serve;
