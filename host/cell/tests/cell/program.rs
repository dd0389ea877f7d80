//! The child processes without the rest of `host`, for this crate's tests.

use std::ffi::CString;
use std::hint::black_box;
use std::os::fd::OwnedFd;
use std::process::ExitCode;

use host_cell::child::{self, Confinement};

mod attacks;

use attacks::{ATTACKS, Attack, Target};

/// The limits of a child that compiles, high enough for every attempt.
const MEMORY_BYTES: u64 = 1 << 30;
const CPU_SECONDS: u64 = 120;

/// The limits of a child that compiles a bomb, in bytes and seconds, and what the bombs use without limits.
const BOMB_MEMORY_BYTES: u64 = 256 << 20;
const BOMB_CPU_SECONDS: u64 = 1;
const BOMB_MIB: usize = 512;
const BOMB_STEPS: u64 = 5_000_000_000;

/// The program's exit code if its attempt was refused.
const REFUSED: i32 = 42;

impl Target {
    /// `folder` has a file `file` and a folder `granted`, and nothing else.
    fn new(folder: &str) -> Self {
        let path = |name: &str| CString::new(format!("{folder}/{name}")).expect("no NUL");
        // SAFETY: it has no arguments and cannot fail.
        let parent = unsafe { libc::getppid() };
        Self {
            parent: usize::try_from(parent).expect("a process id"),
            environ: CString::new(format!("/proc/{parent}/environ")).expect("no NUL"),
            root: CString::from(c"/"),
            file: path("file"),
            other: path("other"),
            open: std::fs::File::options()
                .write(true)
                .open(format!("{folder}/file"))
                .expect("a file"),
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

/// Makes the attempt with this number. The process ends here if it is refused.
fn tried(index: &str, target: &Target) {
    let index: usize = index.parse().expect("a number");
    // Shows that the process got this far.
    println!("now");
    if !attempt(&ATTACKS[index], target) {
        std::process::exit(REFUSED);
    }
}

/// Reads how the attempts are confined: `isolated` if the process has namespaces of its own, and `reads` if
/// it may read below another folder. User 0 means no change.
fn confinement(how: &str, user: u32, folder: &str) -> Confinement {
    let root = std::fs::File::open(format!("{folder}/granted"));
    Confinement {
        user: Some(user).filter(|user| *user != 0),
        is_isolated: how.contains("isolated"),
        roots: Some(root.expect("a folder").into())
            .filter(|_| how.contains("reads"))
            .into_iter()
            .collect(),
        allow_weak: false,
    }
}

/// Restricts this process as a child of this kind: `broker`, `cell`, `compiler` or `schemas`.
fn restrict(kind: &str, memory: u64, cpu: u64, confinement: Confinement) -> Result<(), String> {
    match kind {
        "broker" => {
            let restricted = host_confine::broker(confinement);
            restricted.map(drop).map_err(|error| error.to_string())
        }
        "cell" => child::restrict_cell(confinement).map(drop),
        "compiler" => child::restrict_compiler(memory, cpu, confinement),
        "schemas" => child::restrict_schemas(memory, cpu, confinement),
        _ => Err(format!("unknown kind of child: {kind}")),
    }
}

/// Uses more memory or more time than the limits of a bomb allow.
fn explode(what: &str) {
    // Shows that the process got this far.
    println!("now");
    if what == "memory" {
        let blocks: Vec<Vec<u8>> = (0..BOMB_MIB).map(|_| vec![1; 1 << 20]).collect();
        black_box(blocks);
    } else {
        for step in 0..BOMB_STEPS {
            black_box(step);
        }
    }
}

/// Takes over a descriptor.
fn inherited(fd: u32) -> OwnedFd {
    let fd = i32::try_from(fd).expect("a file descriptor");
    // SAFETY: this process uses each of its descriptors once.
    unsafe { child::inherited(fd) }.expect("a file descriptor")
}

/// Panics in another thread as soon as there is something to read.
fn panic_when_triggered(trigger: OwnedFd) {
    std::thread::spawn(move || {
        rustix::io::read(&trigger, &mut [0]).expect("the trigger comes");
        panic!("this panic was provoked");
    });
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = words.iter().map(String::as_str).collect();
    let number = |text: &str| text.parse::<u32>().expect("a number");
    let done = match args[..] {
        ["panic", fd, slots, memory_mib, _] => {
            panic_when_triggered(inherited(number(fd) + 1));
            let (socket, memory_mib) = (inherited(number(fd)), number(memory_mib).into());
            let confinement = Confinement::default();
            child::run(socket, None, number(slots), memory_mib, false, confinement)
        }
        ["run", fd, slots, memory_mib, roots] => {
            let roots = (0..number(roots)).map(|at| inherited(number(fd) + 1 + at));
            let confinement = Confinement {
                roots: roots.collect(),
                ..Confinement::default()
            };
            let memory_mib = u64::from(number(memory_mib));
            child::run(
                inherited(number(fd)),
                None,
                number(slots),
                memory_mib,
                false,
                confinement,
            )
        }
        ["compile", fd] => child::compile_stdin(
            false,
            inherited(number(fd)),
            1 << 30,
            120,
            Confinement::default(),
        ),
        ["probe"] => {
            let code = rustix::fs::memfd_create("code", rustix::fs::MemfdFlags::CLOEXEC);
            child::probe(code.expect("a file"), 64, Confinement::default())
        }
        ["attack-as", kind, index, folder, how, user] => {
            let target = Target::new(folder);
            let confinement = confinement(how, number(user), folder);
            restrict(kind, MEMORY_BYTES, CPU_SECONDS, confinement).map(|()| tried(index, &target))
        }
        ["bomb", kind, what] => {
            let confinement = Confinement::default();
            restrict(kind, BOMB_MEMORY_BYTES, BOMB_CPU_SECONDS, confinement).map(|()| explode(what))
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
