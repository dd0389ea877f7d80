//! End-to-end tests with the real program: one file per subject.

#![expect(clippy::unwrap_used, reason = "a test may panic")]

mod arco;
mod backup;
mod beads;
mod beads_load;
mod beads_restart;
mod beads_tasks;
mod bombs;
mod chaos;
mod damage;
mod delta;
mod delta_launched;
mod delta_worker;
mod deploy;
mod durability;
mod events;
mod fixture;
mod garbage;
mod grants;
mod hostile;
mod isolation;
mod life;
mod limits;
mod local;
mod neighbours;
mod node_components;
mod node_drain;
mod node_share;
mod node_wires;
mod nodes;
mod postgres;
mod postgres_ways;
mod rrq_garbage;
mod rrq_load;
mod rrq_worker;
mod run;
mod runners;
mod scripts;
mod secrets;
mod serve;
mod store_copy;
mod suspects;
mod telemetry;
mod tour;
mod weak;
