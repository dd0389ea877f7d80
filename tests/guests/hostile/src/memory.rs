//! Handlers that use more memory or stack than they may.

use std::hint::black_box;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use guest_sdk::{Ctx, Error, handler};
use serde::Serialize;
use serde_json::Value;

const BLOCK_BYTES: usize = 1 << 20;
const SMALL_BYTES: usize = 100;
const FRAME_BYTES: usize = 4 << 10;

/// Allocates and touches blocks until allocation fails, then aborts.
#[handler]
pub(crate) fn memory_bomb(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    let mut blocks = Vec::new();
    loop {
        blocks.push(black_box(vec![1_u8; BLOCK_BYTES]));
    }
}

/// Allocates many small pieces until allocation fails, then aborts.
#[handler]
pub(crate) fn memory_many(_ctx: &Ctx, _params: Value) -> Result<(), Error> {
    let mut pieces: Vec<Vec<u8>> = Vec::new();
    loop {
        pieces.push(black_box(vec![1_u8; SMALL_BYTES]));
    }
}

/// Allocates until allocation fails, and returns normally.
#[handler]
pub(crate) fn memory_refused(_ctx: &Ctx, _params: Value) -> Result<usize, Error> {
    let mut blocks: Vec<Vec<u8>> = Vec::new();
    loop {
        let mut block = Vec::new();
        if block.try_reserve_exact(BLOCK_BYTES).is_err() {
            return Ok(blocks.len());
        }
        block.resize(BLOCK_BYTES, 1);
        blocks.push(black_box(block));
    }
}

/// Recurses until the call stack is full.
#[handler]
pub(crate) fn deep_recursion(_ctx: &Ctx, _params: Value) -> Result<u64, Error> {
    Ok(call_again(1))
}

/// Uses no linear memory, so that only the engine's stack grows.
fn call_again(depth: u64) -> u64 {
    static NEVER: AtomicU64 = AtomicU64::new(u64::MAX);
    if depth == NEVER.load(Ordering::Relaxed) {
        return depth;
    }
    call_again(depth + 1).wrapping_mul(3).wrapping_add(depth)
}

/// Recurses with large frames until the stack in linear memory is full.
#[handler]
pub(crate) fn deep_frames(_ctx: &Ctx, _params: Value) -> Result<u64, Error> {
    Ok(call_again_with_frame(1))
}

fn call_again_with_frame(depth: u64) -> u64 {
    let frame = black_box([1_u8; FRAME_BYTES]);
    if black_box(depth) == u64::MAX {
        return depth;
    }
    call_again_with_frame(depth + 1) + u64::from(black_box(&frame)[0])
}

/// What [`remember`] has left for the next run in its memory.
static RUNS: AtomicU64 = AtomicU64::new(0);
static LEFT: Mutex<[u8; BLOCK_BYTES]> = Mutex::new([0; BLOCK_BYTES]);

/// The findings of a run.
#[derive(Serialize)]
pub(crate) struct MemoryFinding {
    /// How many runs there were, including this one.
    runs: u64,
    /// How many bytes an earlier run has left.
    bytes: usize,
}

/// Returns what earlier runs have left in memory, and leaves as much as it can.
#[handler]
pub(crate) fn remember(_ctx: &Ctx, _params: Value) -> Result<MemoryFinding, Error> {
    let mut left = LEFT
        .lock()
        .map_err(|_| Error::fatal("poisoned", "an earlier run has panicked"))?;
    let bytes = left.iter().filter(|byte| **byte != 0).count();
    black_box(&mut left).fill(0xa7);
    let runs = RUNS.fetch_add(1, Ordering::Relaxed) + 1;
    Ok(MemoryFinding { runs, bytes })
}
