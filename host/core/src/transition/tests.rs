//! The table of every state and input, and what holds along every path through it.

mod fixture;
mod leases;
mod paths;
mod rules;
mod table;
