//! The bench: what one host does on this machine, compared with the bare disk and engine in the same run.
//! `cargo xtask bench` builds what it needs and starts it.

mod arco;
mod backup;
mod beads;
mod bounded;
mod cancel;
mod delta;
mod disk;
mod egress;
mod events;
mod exposure;
mod hero;
mod hostile;
mod http;
mod isolation;
mod languages;
mod limits;
mod load;
mod many;
mod numbers;
mod pages;
mod peers;
mod postgres;
mod process;
mod profile;
mod report;
mod rest;
mod rounds;
mod rrq;
mod store;
mod waiting;
mod wasm;
mod way;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use host_tests::{Options, Server, guests};
use tempfile::TempDir;

use crate::report::Report;

/// Measures a host and prints medians with their targets.
#[derive(Parser)]
#[command(name = "cargo xtask bench")]
struct Args {
    /// What to compare with
    #[arg(value_enum, default_value_t = Suite::Machine)]
    suite: Suite,
    /// How many rounds to measure
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How long each load runs in a round, in seconds
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// How many jobs wait while throughput is measured again
    #[arg(long, default_value_t = 1_000_000)]
    waiting: usize,
    /// How many ended jobs the database has while it is measured
    #[arg(long, default_value_t = 10_000_000)]
    ended: usize,
    /// How many hosts share a database; several values are measured in turn
    #[arg(long, value_delimiter = ',', default_values_t = [1, 2, 4])]
    nodes: Vec<usize>,
    /// How many rows the stores of the suite `bounded` have, and how many jobs wait, and have ended, in those of the
    /// suite `pages`
    #[arg(long, default_value_t = 1_000_000)]
    size: usize,
    /// How many jobs are enqueued a second beside the cases of the suite `bounded`
    #[arg(long, default_value_t = 1_000)]
    rate: usize,
    /// Measure only the cases of the suite `bounded` whose names contain this, such as `SQLite, a lost`; may be repeated
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// How many jobs of each kind are cancelled, and how many of each language run
    #[arg(long, default_value_t = 200)]
    cancels: usize,
    /// An older host to compare with in the suite `exposure`, the path of its binary
    #[arg(long)]
    baseline: Option<PathBuf>,
    /// Measure only these parts
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Part>,
    /// Print a table or JSON
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    bare: egress::BareClient,
}

/// What a host is compared with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// The bare disk and engine
    Machine,
    /// RRQ's own runner and orchestrator
    Rrq,
    /// Plain Redis clients in the same run
    Hero,
    /// Jobs in our own cells, for the orchestrator of beads workers
    Beads,
    /// The disk and jobs over HTTP in the same run, for Delta runners
    Delta,
    /// Jobs in cells in the same run, for Arco's tasks
    Arco,
    /// On a database: the bare statements on the same server
    Postgres,
    /// Queues of other projects, in turns under the same load
    Peers,
    /// A host that is open on loopback with one with TLS and tokens, and with an older one
    Exposure,
    /// Large stores and requests beside a steady load, on both stores
    Bounded,
    /// For limits, batches and schedules: the same jobs without them
    Limits,
    /// For requests of handlers: a bare client of the same libraries
    Egress,
    /// The pages of the dashboard over large stores, on both stores
    Pages,
    /// Where the cost of a job goes: threads, cells, wake-ups, system calls; and bare hyper
    Profile,
    /// One handler in each language
    Languages,
}

/// Parts that can be measured alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The disk, the store, the engine and jobs over HTTP, in turns
    Throughput,
    /// The same load with isolated components
    Isolation,
    /// The loop's longest turn and the memory, with hostile guests and bombs
    Hostile,
    /// The same load with many jobs waiting
    Waiting,
    /// The same load during backups
    Backup,
    /// Finding and retrying dead letters
    Many,
    /// How soon a job starts and stops
    Latency,
    /// What an idle host uses
    Rest,
    /// With RRQ: bare round trips of frames
    Frames,
    /// With RRQ: jobs from enqueue to done
    Jobs,
    /// With RRQ: the cost of idle connections
    Idle,
    /// With Redis: jobs and scripts drained, and round trips of the same commands
    Drain,
    /// With Redis: how soon a job starts, is answered and stops
    Times,
    /// For Delta: jobs from lease to completion
    Leases,
    /// For Delta: the cost of waiting runners, and how soon they get a job
    Polls,
    /// For Arco: how soon a task that ignores its cancel ends after the grace
    Stops,
    /// For Arco and beads: tasks through a worker
    Tasks,
    /// For Arco and Delta: the cost of heartbeats
    Heartbeats,
    /// For beads: how soon a ready worker gets its task
    Handout,
    /// For beads: the cost of idle workers
    IdleWorkers,
    /// On a database: several hosts on one database
    Nodes,
    /// On a database: several hosts far from it
    Distance,
    /// On a database: a backlog at one of two hosts
    Share,
    /// On a database: another queue on the same server
    GraphileWorker,
    /// With Redis: another queue on it
    Bullmq,
    /// On a database, only on request: dead rows and sizes after each round of a load
    Growth,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

impl Part {
    const fn is_of(self, suite: Suite) -> bool {
        match self {
            Self::Throughput | Self::Waiting | Self::Rest => {
                matches!(suite, Suite::Machine | Suite::Postgres)
            }
            Self::Isolation | Self::Hostile | Self::Backup | Self::Many | Self::Latency => {
                matches!(suite, Suite::Machine)
            }
            Self::Frames | Self::Jobs | Self::Idle => matches!(suite, Suite::Rrq),
            Self::Drain | Self::Times => matches!(suite, Suite::Hero),
            Self::Leases | Self::Polls => matches!(suite, Suite::Delta),
            Self::Stops => matches!(suite, Suite::Arco),
            Self::Tasks => matches!(suite, Suite::Arco | Suite::Beads),
            Self::Heartbeats => matches!(suite, Suite::Arco | Suite::Delta),
            Self::Handout | Self::IdleWorkers => matches!(suite, Suite::Beads),
            Self::Nodes | Self::Distance | Self::Share | Self::Growth => {
                matches!(suite, Suite::Postgres)
            }
            Self::GraphileWorker | Self::Bullmq => matches!(suite, Suite::Peers),
        }
    }
}

impl Args {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }
}

/// A host with the example handlers, and its data.
struct Stage {
    server: Server,
    folder: TempDir,
    /// The variables that select its store.
    env: Vec<(String, String)>,
}

impl Stage {
    /// Starts a host with its data in the build folder: temporary folders may be in memory.
    fn start() -> Result<Self> {
        Self::with(&["basics", "hostile"], Vec::new())
    }

    /// Starts a host with other components and more arguments.
    fn with(components: &[&str], args: Vec<String>) -> Result<Self> {
        Self::stored(components, args, Vec::new())
    }

    /// Starts a host with variables that select its store.
    fn stored(components: &[&str], args: Vec<String>, env: Vec<(String, String)>) -> Result<Self> {
        Self::below(&build_folder()?, components, args, env)
    }

    /// Starts a host with its data in memory, where no disk adds its own pauses.
    fn in_memory() -> Result<Self> {
        let components = ["basics", "hostile"];
        Self::below(Path::new("/dev/shm"), &components, Vec::new(), Vec::new())
    }

    fn below(
        folder: &Path,
        components: &[&str],
        args: Vec<String>,
        env: Vec<(String, String)>,
    ) -> Result<Self> {
        let folder = TempDir::new_in(folder).context("cannot make a data directory")?;
        let mut options = Options::new(&folder.path().join("data"));
        (options.args, options.env) = (args, env.clone());
        let server = Server::start(&options);
        for name in components {
            let path = guests::component(name);
            let component =
                std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let manifest = std::fs::read_to_string(path.with_extension("toml")).ok();
            let answer = server
                .client()
                .deploy(name, &component, manifest.as_deref())?;
            ensure!(
                matches!(answer.status, 200 | 201),
                "cannot deploy {name}: {}",
                answer.body
            );
        }
        Ok(Self {
            server,
            folder,
            env,
        })
    }

    /// Stops the host and starts it again.
    fn again(self) -> Result<Self> {
        let code = self.server.stop();
        ensure!(code == Some(0), "the host ended with {code:?}, not with 0");
        let mut options = Options::new(&self.folder.path().join("data"));
        options.env.clone_from(&self.env);
        let server = Server::start(&options);
        Ok(Self { server, ..self })
    }

    fn stop(self) -> Result<()> {
        let code = self.server.stop();
        ensure!(code == Some(0), "the host ended with {code:?}, not with 0");
        self.folder.close().context("cannot remove its data")
    }
}

/// Returns the folder on disk for all measurements.
fn build_folder() -> Result<PathBuf> {
    let folder = guests::folder().with_file_name("bench");
    std::fs::create_dir_all(&folder)
        .with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn main() -> Result<()> {
    let args = Args::parse();
    if args.bare.requests > 0 {
        println!("{}", args.bare.measure()?);
        return Ok(());
    }
    ensure!(args.rounds > 0, "at least one round is needed");
    for part in &args.only {
        ensure!(
            part.is_of(args.suite),
            "{part:?} is not a part of {:?}",
            args.suite
        );
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let report = runtime.block_on(measure(&args))?;
    match args.output {
        Format::Table => println!("{}", report.table()),
        Format::Json => println!("{:#}", report.json()),
    }
    Ok(())
}

async fn measure(args: &Args) -> Result<Report> {
    let mut report = Report::default();
    match args.suite {
        Suite::Machine => machine(args, &mut report).await?,
        Suite::Rrq => rrq::measure(args, &mut report).await?,
        Suite::Beads => beads::measure(args, &mut report).await?,
        Suite::Delta => delta::measure(args, &mut report).await?,
        Suite::Hero => tokio::task::block_in_place(|| hero::measure(args, &mut report))?,
        Suite::Arco => arco::measure(args, &mut report).await?,
        Suite::Postgres => postgres::measure(args, &mut report).await?,
        Suite::Peers => peers::measure(args, &mut report).await?,
        Suite::Exposure => exposure::measure(args, &mut report).await?,
        Suite::Bounded => bounded::measure(args, &mut report).await?,
        Suite::Limits => limits::measure(args, &mut report).await?,
        Suite::Egress => egress::measure(args, &mut report).await?,
        Suite::Pages => pages::measure(args, &mut report).await?,
        Suite::Profile => profile::measure(args, &mut report).await?,
        Suite::Languages => languages::measure(args, &mut report).await?,
    }
    Ok(report)
}

async fn machine(args: &Args, report: &mut Report) -> Result<()> {
    let stage = Stage::start()?;
    if args.wants(Part::Rest) {
        rest::measure(&stage.server, report).await?;
    }
    if args.wants(Part::Throughput) {
        rounds::measure(args, &stage, report).await?;
    }
    if args.wants(Part::Isolation) {
        isolation::measure(args, &stage, report).await?;
    }
    if args.wants(Part::Latency) {
        cancel::pickup(args, stage.server.address(), report).await?;
        cancel::measure(args, stage.server.address(), report).await?;
    }
    if args.wants(Part::Waiting) {
        waiting::measure(args, &stage, report).await?;
    }
    if args.wants(Part::Backup) {
        backup::measure(args, report).await?;
    }
    if args.wants(Part::Hostile) {
        tokio::task::block_in_place(|| hostile::measure(report))?;
    }
    if args.wants(Part::Many) {
        many::measure(args, report).await?;
    }
    stage.stop()
}
