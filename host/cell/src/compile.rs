//! The compile child: turns one component into one file of machine code, or reports why the component is
//! refused. It never runs code of the component.

use std::fs::File;
use std::io::{Read, Write as _};

use host_core::cell::{CompileFlaw, CompileReply, Compiled};
use sha2::{Digest as _, Sha256};
use thiserror::Error;
use wasmtime::Engine;
use wasmtime::component::Component;

use crate::bindings::JobPre;
use crate::engine;
use crate::linker::{is_linked, is_stubbed, link, stub};

/// The largest component, in bytes.
pub const COMPONENT_BYTES_MAX: u64 = 32 << 20;

/// The first bytes of a component: magic, version 13, layer 1. A core module has another version.
const COMPONENT_HEAD: &[u8] = b"\0asm\x0d\0\x01\0";

/// A failure that the component did not cause.
#[derive(Debug, Error)]
#[error("cannot {operation}: {cause}")]
pub(crate) struct CompileError {
    operation: String,
    cause: String,
}

/// Reads a component from `input`, compiles it, writes the machine code to `output` and syncs that to
/// disk. `quick` takes less time for slower code.
pub(crate) fn compile(
    quick: bool,
    input: &mut dyn Read,
    output: &mut File,
) -> Result<CompileReply, CompileError> {
    let mut bytes = Vec::new();
    input
        .take(COMPONENT_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(failed("read the component"))?;
    match check_and_compile(quick, &bytes)? {
        Ok((code, stubbed)) => {
            let written = output.write_all(&code).and_then(|()| output.sync_all());
            written.map_err(failed("write the machine code"))?;
            Ok(Ok(Compiled {
                sha256: Sha256::digest(&code).into(),
                bytes: code.len() as u64,
                stubbed,
            }))
        }
        Err(refusal) => Ok(Err(refusal)),
    }
}

/// Returns the machine code of a component and the interfaces that are stubbed.
fn check_and_compile(
    quick: bool,
    bytes: &[u8],
) -> Result<Result<(Vec<u8>, Vec<String>), CompileFlaw>, CompileError> {
    if bytes.len() as u64 > COMPONENT_BYTES_MAX {
        let limit = COMPONENT_BYTES_MAX;
        return Ok(Err(CompileFlaw::TooLarge { limit }));
    }
    if Engine::detect_precompiled(bytes).is_some() {
        return Ok(Err(CompileFlaw::Precompiled));
    }
    if !bytes.starts_with(COMPONENT_HEAD) {
        return Ok(Err(CompileFlaw::NotAComponent));
    }
    let engine = engine::compiling(quick).map_err(failed("set up the compiler"))?;
    let mut linker = link(&engine).map_err(failed("set up the compiler"))?;
    let component = match Component::new(&engine, bytes) {
        Ok(component) => component,
        Err(error) => {
            let message = format!("{error:#}");
            return Ok(Err(CompileFlaw::Invalid { message }));
        }
    };
    let kind = component.component_type();
    let forbidden = kind
        .imports(&engine)
        .map(|(name, _)| name)
        .find(|name| !is_linked(name) && !is_stubbed(name));
    if let Some(name) = forbidden {
        let name = name.to_owned();
        return Ok(Err(CompileFlaw::ForbiddenImport { name }));
    }
    let stubbed = match stub(&mut linker, &component) {
        Ok(stubbed) => stubbed,
        Err(error) => {
            let message = format!("{error:#}");
            return Ok(Err(CompileFlaw::WrongWorld { message }));
        }
    };
    let fits = linker.instantiate_pre(&component).and_then(JobPre::new);
    if let Err(error) = fits {
        let message = format!("{error:#}");
        return Ok(Err(CompileFlaw::WrongWorld { message }));
    }
    component
        .serialize()
        .map(|code| Ok((code, stubbed)))
        .map_err(failed("serialize the machine code"))
}

fn failed<E: std::fmt::Display>(operation: &str) -> impl FnOnce(E) -> CompileError {
    let operation = operation.to_owned();
    move |error| CompileError {
        operation,
        cause: format!("{error:#}"),
    }
}
