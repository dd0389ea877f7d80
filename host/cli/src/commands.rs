//! One file per noun.

pub(crate) mod backup;
pub(crate) mod build;
pub(crate) mod cell;
pub(crate) mod completion;
pub(crate) mod component;
pub(crate) mod deploy;
pub(crate) mod dev;
pub(crate) mod docs;
pub(crate) mod doctor;
pub(crate) mod explain;
pub(crate) mod handler;
pub(crate) mod job;
pub(crate) mod man;
pub(crate) mod new;
pub(crate) mod node;
pub(crate) mod queue;
pub(crate) mod run;
pub(crate) mod runner;
pub(crate) mod serve;
mod settings;
pub(crate) mod store;
pub(crate) mod worker;

/// Keeps other users from reading what a command writes from now on.
fn keep_private() {
    use rustix::fs::Mode;
    let _before = rustix::process::umask(Mode::RWXG | Mode::RWXO);
}
