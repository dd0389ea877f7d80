//! The host's side of cells, the processes that run guests. `run` builds runs, `pool` decides which cell gets
//! them, `process` talks to real cells and `sandbox` starts them in a sandbox. `compile` and `deploy` prepare
//! components. This crate knows neither the store nor any wire.

pub mod compile;
pub mod deploy;
pub mod pool;
pub mod port;
pub mod process;
pub mod run;
pub mod sandbox;
