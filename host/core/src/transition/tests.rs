//! The table of every state and input, and the rules along every path through it.

pub(crate) mod fixture;
mod leases;
mod paths;
mod prerequisite;
mod rules;
mod table;
mod times;
