//! The host's side of cells, the processes that run guests. The modules `ladder`, `suspects`,
//! `placement`, `chain` and `build` make decisions and do no input or output. `pool` tracks cells
//! and runs, and `process` handles the real processes. This crate knows neither the store nor any
//! wire.

pub mod build;
pub mod cgroup;
pub mod chain;
pub mod check;
mod child;
pub mod compile;
pub mod examine;
pub mod feed;
pub mod frames;
pub mod grants;
pub mod handlers;
pub mod ladder;
pub mod limits;
pub mod manifest;
pub mod once;
pub mod order;
pub mod placement;
pub mod pool;
pub mod port;
pub mod process;
mod programs;
pub mod protection;
pub mod room;
pub mod roots;
pub mod schema;
mod seal;
pub mod spawn;
pub mod suspects;

#[cfg(test)]
extern crate self as host_cells;
pub mod vet;
