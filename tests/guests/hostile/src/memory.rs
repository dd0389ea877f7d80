//! Handlers that use more memory or stack than they may.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};

use guest_sdk::{Ctx, Error, handler};
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
