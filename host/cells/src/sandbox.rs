//! Child processes and their sandbox: control groups, namespaces, and the directories that they may read.

pub mod broker;
pub mod cgroup;
pub(crate) mod child;
pub mod needs;
pub mod protection;
pub mod room;
pub mod roots;
pub mod spawn;
pub(crate) mod stderr;
