//! Cells: the processes where guests run. The pure parts decide (`ladder`, `suspects`,
//! `placement`), `pool` keeps the picture, `process` is the thin shell around real processes.
//! Nothing here knows the store.

pub mod chain;
pub mod check;
pub mod frames;
pub mod ladder;
pub mod once;
pub mod placement;
pub mod pool;
pub mod port;
pub mod process;
pub mod spawn;
pub mod suspects;
