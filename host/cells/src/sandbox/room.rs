//! How much fits into one cell.

/// The capacity of one cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellCapacity {
    /// How many runs it executes concurrently.
    pub slots: u32,
    /// Memory for all its guests together, in MiB.
    pub memory_mib: u64,
}
