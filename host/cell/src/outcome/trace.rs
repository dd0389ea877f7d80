//! The stack trace of a trap: the frames with the names of their functions, as their language writes them.

use wasmtime::WasmBacktrace;

/// Returns one line for each frame, the innermost first: its number, the place in its module, and its function.
pub(super) fn render(backtrace: &WasmBacktrace) -> String {
    let frames = backtrace.frames().iter().enumerate();
    let lines = frames.map(|(number, frame)| {
        let place = frame.module_offset().unwrap_or_default();
        let function = match frame.func_name() {
            // Without the hash that the compiler appends.
            Some(name) => format!("{:#}", rustc_demangle::demangle(name)),
            None => format!("<function {}>", frame.func_index()),
        };
        format!("{number:>3}: {place:#8x} - {function}")
    });
    lines.collect::<Vec<_>>().join("\n")
}
