//! `host cell`: the child processes of a host. Users never start it, so the help does not list it.

use std::ffi::OsString;
use std::io;
use std::os::fd::{OwnedFd, RawFd};

use clap::{Args, Command, Subcommand};
use host_cell::child::{self, Confinement};
use host_cells::compile::{self, vet};
use host_console::error::{CliError, Exit};
use host_wire_kit::process::supervisor;

/// The first descriptor of a root: after the standard ones, and the socket and the lock of a cell.
const ROOTS_FD: RawFd = 5;

/// The descriptor with the time until which guests may run, before those of the roots.
const LIFELINE_FD: RawFd = 5;

/// The first descriptor of a root of a child that has one descriptor besides.
const PROBE_ROOTS_FD: RawFd = 4;

/// The child processes of a host.
#[derive(Debug, Args)]
pub(crate) struct Cell {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Run guests for the host at the other end of an inherited socket
    Run {
        /// The socket
        #[arg(long)]
        fd: RawFd,
        /// How many guests run concurrently
        #[arg(long)]
        slots: u32,
        /// How much memory all guests share
        #[arg(long)]
        memory_mib: u64,
        /// The next descriptor is the time until which guests may run
        #[arg(long)]
        lifeline: bool,
        /// The guests were compiled with `--quick`
        #[arg(long)]
        quick: bool,
        #[command(flatten)]
        confined: Confined,
    },
    /// Compile the schemas on standard input
    Schemas {
        #[command(flatten)]
        confined: Confined,
    },
    /// Compile the component on standard input
    Compile {
        /// The open file to write
        #[arg(long)]
        fd: RawFd,
        /// Take less time for code that computes more slowly
        #[arg(long)]
        quick: bool,
        #[command(flatten)]
        confined: Confined,
    },
    /// Run a program, and end all that it started with it or with the host
    Supervise {
        /// The program and its arguments
        #[arg(last = true, required = true)]
        command: Vec<OsString>,
    },
    /// Report how this process is confined, and whether it can run guests
    Probe {
        /// The open file for machine code
        #[arg(long)]
        fd: RawFd,
        /// The most guests that a cell runs at a time
        #[arg(long)]
        slots: u32,
        #[command(flatten)]
        confined: Confined,
    },
}

/// How the process is confined.
#[derive(Debug, Args)]
pub(crate) struct Confined {
    /// The user to become
    #[arg(long)]
    user: Option<u32>,
    /// Run without the protection that is needed
    #[arg(long)]
    allow_weak: bool,
    /// The process has namespaces of its own
    #[arg(long)]
    isolated: bool,
    /// How many directories are open below which it may read
    #[arg(long, default_value_t = 0)]
    roots: u16,
}

impl Confined {
    /// Takes over the roots, the first of which is `first`.
    pub(crate) fn take(self, first: RawFd) -> Result<Confinement, String> {
        let roots = (first..).take(usize::from(self.roots));
        Ok(Confinement {
            user: self.user,
            is_isolated: self.isolated,
            roots: roots.map(inherited).collect::<Result<_, _>>()?,
            allow_weak: self.allow_weak,
        })
    }
}

/// Takes over a descriptor that is passed to this process.
pub(crate) fn inherited(fd: RawFd) -> Result<OwnedFd, String> {
    // SAFETY: a child takes over each of its descriptors once, before it does anything else.
    unsafe { child::inherited(fd) }
}

impl Cell {
    /// Returns the definition of the noun `name` alone.
    pub(crate) fn definition(name: &'static str) -> Command {
        Self::augment_args(Command::new(name))
    }

    /// Runs the verb.
    pub(crate) fn run(self) -> Result<(), CliError> {
        let (doing, done) = match self.verb {
            Verb::Run {
                fd,
                slots,
                memory_mib,
                lifeline,
                quick,
                confined,
            } => {
                let roots_fd = if lifeline { LIFELINE_FD + 1 } else { ROOTS_FD };
                let run = |confinement| {
                    let lifeline = lifeline.then(|| inherited(LIFELINE_FD)).transpose()?;
                    child::run(
                        inherited(fd)?,
                        lifeline,
                        slots,
                        memory_mib,
                        quick,
                        confinement,
                    )
                };
                ("run as a cell", confined.take(roots_fd).and_then(run))
            }
            Verb::Schemas { confined } => {
                ("compile schemas", confined.take(ROOTS_FD).and_then(schemas))
            }
            Verb::Compile {
                fd,
                quick,
                confined,
            } => {
                let (memory, cpu) = (compile::MEMORY_BYTES_MAX, compile::CPU_SECONDS_MAX);
                let run = |confinement| {
                    child::compile_stdin(quick, inherited(fd)?, memory, cpu, confinement)
                };
                let done = confined.take(ROOTS_FD).and_then(run);
                ("compile a component", done)
            }
            Verb::Supervise { command } => {
                let done = supervisor::run(&command).map_err(|error| error.to_string());
                ("supervise a program", done)
            }
            Verb::Probe {
                fd,
                slots,
                confined,
            } => {
                let probe = |confinement| child::probe(inherited(fd)?, slots, confinement);
                let done = confined.take(PROBE_ROOTS_FD).and_then(probe);
                ("report how children are confined", done)
            }
        };
        done.map_err(|cause| CliError::new(Exit::Failed, doing, cause))
    }
}

fn schemas(confinement: Confinement) -> Result<(), String> {
    child::restrict_schemas(vet::MEMORY_BYTES_MAX, vet::CPU_SECONDS_MAX, confinement)?;
    vet::answer(&mut io::stdin().lock(), &mut io::stdout().lock())
        .map_err(|error| error.to_string())
}
