//! The bench: what one host does on this machine, compared with the bare disk and engine, with itself, and with other
//! programs in the same run. `cargo xtask bench` builds what it needs and starts it.

mod bounded;
mod disk;
mod egress;
mod events;
mod exposure;
mod http;
mod languages;
mod latency;
mod limits;
mod load;
mod machine;
mod numbers;
mod peers;
mod postgres;
mod process;
mod report;
mod way;
mod wires;

use std::path::{Path, PathBuf};
use std::time::Duration;

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
    /// How many jobs wait while throughput is measured again, and how many rows the stores of the suite `bounded` have
    #[arg(long, default_value_t = 1_000_000)]
    size: usize,
    /// How many jobs are enqueued a second beside the cases of the suite `bounded`
    #[arg(long, default_value_t = 1_000)]
    rate: usize,
    /// How many jobs of each kind are cancelled, and how many of each language run
    #[arg(long, default_value_t = 200)]
    cancels: usize,
    /// Measure only the wires, peers or cases whose names contain this, such as `beads`; may be repeated
    #[arg(long = "case", value_name = "NAME")]
    cases: Vec<String>,
    /// An older host to compare with in the suite `exposure`, the path of its binary
    #[arg(long)]
    baseline: Option<PathBuf>,
    /// Print a table or JSON
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    output: Format,
    #[command(flatten)]
    bare: egress::BareClient,
}

/// The baseline of a comparison.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Suite {
    /// The bare disk and engine
    Machine,
    /// For each wire, jobs in our own cells; for RRQ, its own runner as well
    Wires,
    /// On a database: the bare statements on the same server, and several hosts
    Postgres,
    /// Queues of other projects, in turns under the same load
    Peers,
    /// A host that is open on loopback with one with TLS and tokens, and with an older one
    Exposure,
    /// Large stores and requests beside a steady load, on both stores
    Bounded,
    /// For limits and batches: the same jobs without them
    Limits,
    /// For requests of handlers: a bare client of the same libraries
    Egress,
    /// One handler in each language
    Languages,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Table,
    Json,
}

impl Args {
    /// Returns whether a case is measured.
    fn wants(&self, name: &str) -> bool {
        self.cases.is_empty() || self.cases.iter().any(|part| name.contains(part))
    }

    /// Counts the rounds, and prints which one begins.
    fn rounds(&self, name: &str) -> impl Iterator<Item = usize> {
        (1..=self.rounds)
            .inspect(move |round| eprintln!("{name}: round {round} of {}", self.rounds))
    }

    fn span(&self) -> Duration {
        Duration::from_secs_f64(self.seconds)
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
    /// Starts a host with these components and its data in the build folder: temporary folders may be in memory.
    fn start(components: &[&str]) -> Result<Self> {
        Self::configured(components, "")
    }

    /// Starts a host with a configuration file.
    fn configured(components: &[&str], config: &str) -> Result<Self> {
        let folder = TempDir::new_in(build_folder()?).context("cannot make a data directory")?;
        let path = folder.path().join("host.toml");
        std::fs::write(&path, config).context("cannot write the configuration")?;
        Self::deployed(folder, components, Some(&path), Vec::new())
    }

    /// Starts a host with variables that select its store.
    fn stored(components: &[&str], env: Vec<(String, String)>) -> Result<Self> {
        let folder = TempDir::new_in(build_folder()?).context("cannot make a data directory")?;
        Self::deployed(folder, components, None, env)
    }

    fn deployed(
        folder: TempDir,
        components: &[&str],
        config: Option<&Path>,
        env: Vec<(String, String)>,
    ) -> Result<Self> {
        let mut options = Options::new(&folder.path().join("data"));
        if let Some(config) = config {
            options.args = vec!["--config".to_owned(), config.display().to_string()];
        }
        options.env.clone_from(&env);
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
    fn restart(self) -> Result<Self> {
        let code = self.server.stop();
        ensure!(code == Some(0), "the host ended with {code:?}, not with 0");
        let mut options = Options::new(&self.folder.path().join("data"));
        options.env.clone_from(&self.env);
        let server = Server::start(&options);
        Ok(Self { server, ..self })
    }

    fn address(&self) -> &str {
        self.server.address()
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
        Suite::Machine => machine::measure(args, &mut report).await?,
        Suite::Wires => wires::measure(args, &mut report).await?,
        Suite::Postgres => postgres::measure(args, &mut report).await?,
        Suite::Peers => peers::measure(args, &mut report).await?,
        Suite::Exposure => exposure::measure(args, &mut report).await?,
        Suite::Bounded => bounded::measure(args, &mut report).await?,
        Suite::Limits => tokio::task::block_in_place(|| limits::measure(args, &mut report))?,
        Suite::Egress => egress::measure(args, &mut report).await?,
        Suite::Languages => languages::measure(args, &mut report).await?,
    }
    ensure!(!report.is_empty(), "no case is named like {:?}", args.cases);
    Ok(report)
}
