//! The child processes without the rest of `host`, for this crate's tests.

use std::ffi::CString;
use std::path::Path;
use std::process::ExitCode;

mod attacks;

use attacks::{ATTACKS, Attack, Target};

/// What the program exits with if its attempt was refused.
const REFUSED: i32 = 42;

impl Target {
    /// `folder` has a file `file` and nothing else.
    fn new(folder: &str) -> Self {
        let path = |name: &str| CString::new(format!("{folder}/{name}")).expect("no NUL");
        // SAFETY: it has no arguments and cannot fail.
        let parent = unsafe { libc::getppid() };
        Self {
            parent: usize::try_from(parent).expect("a process id"),
            file: path("file"),
            other: path("other"),
            buffer: vec![0; 4096],
        }
    }
}

/// Makes one attempt. Returns whether it succeeded.
fn attempt((_, call, arguments): &Attack, target: &Target) -> bool {
    let [first, second, third, fourth, fifth, sixth] = arguments(target);
    // SAFETY: the arguments are numbers, and pointers to memory of `target` that is large enough for what
    // these calls read and write.
    unsafe { libc::syscall(*call, first, second, third, fourth, fifth, sixth) != -1 }
}

/// Makes the attempt with this number, and ends here if it is refused.
fn tried(index: &str, target: &Target) {
    let index: usize = index.parse().expect("a number");
    // Shows that the process came this far.
    println!("now");
    if !attempt(&ATTACKS[index], target) {
        std::process::exit(REFUSED);
    }
}

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
        ["attack", index, folder] => {
            let target = Target::new(folder);
            host_cell::child::restrict_cell().map(|()| tried(index, &target))
        }
        ["attack-unrestricted", index, folder] => {
            tried(index, &Target::new(folder));
            Ok(())
        }
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
