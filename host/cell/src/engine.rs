//! The configuration of wasmtime. Settings that affect machine code are the same in the compile child
//! and in cells; only the allocation of instances differs.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash as _, Hasher as _};
use std::num::NonZeroUsize;

use wasmtime::{
    Config, Enabled, Engine, OptLevel, PoolingAllocationConfig, RegallocAlgorithm, Result,
    WasmBacktraceDetails,
};

/// How much of an instance's memory stays mapped for the next instance, in bytes. Mapping it again would
/// be the largest cost of a small job.
const KEEP_RESIDENT_BYTES: usize = 512 << 10;

/// The native stack that a guest may use, in bytes: 5,000 nested calls of JavaScript.
pub(crate) const GUEST_STACK_BYTES: usize = 4 << 20;

/// The native stack of a run including its host calls, in bytes.
const RUN_STACK_BYTES: usize = 5 << 20;

/// How much of [`RUN_STACK_BYTES`] stays mapped for the next run. All of it is cleared after each run,
/// used or not, so it is only as large as most guests need.
const STACK_KEEP_RESIDENT_BYTES: usize = 32 << 10;

/// The most frames of a stack trace. In a Rust panic the standard library takes the first eleven.
const FRAMES_MAX: usize = 64;

/// The most memories, tables and core instances of one component. A component made from Python needs 38 core
/// instances.
const MEMORIES_PER_SLOT: u32 = 4;
const TABLES_PER_SLOT: u32 = 8;
const CORE_INSTANCES_PER_SLOT: u32 = 64;

/// How many times as much native stack code of the quick compiler may use: it keeps most values there.
const QUICK_STACKS: usize = 8;

/// Makes the engine of a cell that runs `slots` guests concurrently, with the stack that code of the `quick` compiler
/// needs.
pub(crate) fn pooled(slots: u32, quick: bool) -> Result<Engine> {
    let mut pool = PoolingAllocationConfig::new();
    pool.total_component_instances(slots)
        .total_stacks(slots)
        .total_memories(slots * MEMORIES_PER_SLOT)
        .total_tables(slots * TABLES_PER_SLOT)
        .total_core_instances(slots * CORE_INSTANCES_PER_SLOT)
        .max_memories_per_component(MEMORIES_PER_SLOT)
        .max_tables_per_component(TABLES_PER_SLOT)
        .max_core_instances_per_component(CORE_INSTANCES_PER_SLOT)
        .max_memories_per_module(MEMORIES_PER_SLOT)
        .max_tables_per_module(TABLES_PER_SLOT)
        .max_unused_warm_slots(slots)
        .linear_memory_keep_resident(KEEP_RESIDENT_BYTES)
        .table_keep_resident(KEEP_RESIDENT_BYTES)
        .async_stack_keep_resident(STACK_KEEP_RESIDENT_BYTES)
        .pagemap_scan(Enabled::Auto);
    let mut config = codegen();
    config.allocation_strategy(pool);
    if quick {
        config
            .max_wasm_stack(QUICK_STACKS * GUEST_STACK_BYTES)
            .async_stack_size(QUICK_STACKS * RUN_STACK_BYTES);
    }
    Engine::new(&config)
}

/// Makes the engine of the compile child, which never instantiates a component. A `quick` one compiles in less time
/// to code that computes more slowly. Cells run either code.
pub(crate) fn compiling(quick: bool) -> Result<Engine> {
    let mut config = codegen();
    config.parallel_compilation(true);
    if quick {
        config
            .cranelift_opt_level(OptLevel::None)
            .cranelift_regalloc_algorithm(RegallocAlgorithm::SinglePass);
    }
    Engine::new(&config)
}

/// Returns a hash of everything that machine code depends on. Machine code is loaded only by an engine
/// with the same hash as the engine that compiled it.
pub fn engine_hash(quick: bool) -> Result<String> {
    let mut hasher = DefaultHasher::new();
    compiling(quick)?
        .precompile_compatibility_hash()
        .hash(&mut hasher);
    Ok(format!("{:016x}", hasher.finish()))
}

fn codegen() -> Config {
    let mut config = Config::new();
    config
        .epoch_interruption(true)
        .consume_fuel(true)
        .shared_memory(false)
        .wasm_memory64(false)
        .wasm_tail_call(false)
        .wasm_relaxed_simd(false)
        .wasm_backtrace_details(WasmBacktraceDetails::Disable)
        .wasm_backtrace_max_frames(NonZeroUsize::new(FRAMES_MAX))
        .native_unwind_info(false)
        .max_wasm_stack(GUEST_STACK_BYTES)
        .async_stack_size(RUN_STACK_BYTES)
        .async_stack_zeroing(true)
        .cranelift_opt_level(OptLevel::Speed)
        .parallel_compilation(false);
    config
}
