//! The child processes without the rest of `host`, for this crate's tests.

use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let done = match args[..] {
        ["run", fd, slots, memory_mib] => host_cell::child::run(
            fd.parse().expect("a file descriptor"),
            slots.parse().expect("a number of slots"),
            memory_mib.parse().expect("a number of MiB"),
        ),
        ["compile", output] => host_cell::child::compile_stdin(Path::new(output)),
        _ => Err(format!("unknown arguments: {args:?}")),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
