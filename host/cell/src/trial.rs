//! Tries what every cell needs from the machine: addresses for the memory of its guests, and machine code that runs
//! from a file of the cache.

use std::fs::File;
use std::io::Write as _;

use host_confine::opened;
use wasmtime::error::Context as _;
use wasmtime::{Engine, Instance, Module, Result, Store, bail};

use crate::engine;

/// `(module (memory 1) (func (export "answer") (result i32) i32.const 42))`
const MODULE: &[u8] = b"\0asm\x01\0\0\0\
    \x01\x05\x01\x60\0\x01\x7f\
    \x03\x02\x01\0\
    \x05\x03\x01\0\x01\
    \x07\x0a\x01\x06answer\0\0\
    \x0a\x06\x01\x04\0\x41\x2a\x0b";
const ANSWER: i32 = 42;

/// More fuel than the module needs.
const FUEL: u64 = 10_000;

/// A trial whose machine code is in its file.
pub(crate) struct Trial {
    engine: Engine,
    code: File,
}

impl Trial {
    /// Makes the engine of a cell with `slots` slots, and writes machine code to `code`. Call it before the process is
    /// restricted.
    pub(crate) fn prepare(mut code: File, slots: u32) -> Result<Self> {
        // SAFETY: ignoring a signal installs no handler. A write beyond the limit of files then fails.
        unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
        let engine =
            engine::pooled(slots, false).context("reserve addresses for the memory of guests")?;
        let compiled = engine.precompile_module(MODULE).context("compile")?;
        code.write_all(&compiled).context("write machine code")?;
        Ok(Self { engine, code })
    }

    /// Maps the machine code and runs it. The process must be restricted as a cell.
    pub(crate) fn run(self) -> Result<()> {
        let Self { engine, code } = self;
        // SAFETY: this process has just written the file, which no other process can open.
        let module = opened::as_file(code, |path| unsafe {
            Module::deserialize_file(&engine, path)
        })
        .context("map machine code from a file")?;
        let mut store = Store::new(&engine, ());
        store.set_fuel(FUEL)?;
        store.set_epoch_deadline(1);
        let instance = Instance::new(&mut store, &module, &[]).context("make a sandbox")?;
        let function = instance.get_typed_func::<(), i32>(&mut store, "answer")?;
        match function.call(&mut store, ()).context("run machine code")? {
            ANSWER => Ok(()),
            other => bail!("machine code returned {other} instead of {ANSWER}"),
        }
    }
}
