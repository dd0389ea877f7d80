//! Hosts whose jobs are in `PostgreSQL`, compared with the bare statements on the same server. The server has its default
//! durability, with its data in the build folder.

mod bare;
mod distance;
mod growth;
mod seed;
mod share;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use host_tests::Cluster;
use tokio::task::JoinSet;

use crate::load::{self, Shape};
use crate::numbers::count;
use crate::process::{cells, cpu_us};
use crate::report::{Report, Target};
use crate::rounds::{arrays, single};
use crate::{Args, Part, Stage, build_folder};

/// 256 jobs are two and a half arrays, each of which waits for the one before. 2,560 are as many arrays in
/// flight as the host can use.
pub(crate) const SHAPES: [Shape; 3] = [single(256), arrays(256), arrays(2_560)];

/// The targets.
const BARE_RATIO_MIN: f64 = 0.5;
const SINGLES_PER_SECOND_MIN: f64 = 5_000.0;
const ARRAYS_RATIO_MIN: f64 = 1.5;
const SEEDED_RATIO_MIN: f64 = 0.8;
const IDLE_STATEMENTS_MAX: f64 = 2.0;
const NODES_RATIO_MIN: f64 = 1.0;
const NODES_CPU_MAX: f64 = 1.2;

/// How long a host idles before its statements are counted, and how long they are counted.
const SETTLE: Duration = Duration::from_secs(2);
const IDLE_SPAN: Duration = Duration::from_secs(10);

/// Statements are counted, and there are enough connections for four hosts and another queue.
pub(crate) const SETTINGS: [&str; 3] = [
    "max_connections=200",
    "shared_preload_libraries=pg_stat_statements",
    "shared_buffers=256MB",
];

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let cluster = Cluster::start(&build_folder()?, &SETTINGS);
    ensure!(
        cluster.execute("CREATE EXTENSION pg_stat_statements"),
        "no pg_stat_statements"
    );
    let stage = Database::make(&cluster, "bench")?.stage()?;
    if args.wants(Part::Rest) {
        idle(&cluster, report).await?;
    }
    if args.wants(Part::Throughput) {
        throughput(args, &cluster, &stage, report).await?;
    }
    if args.wants(Part::Waiting) {
        seeded(args, &cluster, &stage, report).await?;
    }
    if args.only.contains(&Part::Growth) {
        growth::measure(args, &cluster, report).await?;
    }
    stage.stop()?;
    if args.wants(Part::Nodes) {
        nodes(args, &cluster, report).await?;
    }
    if args.wants(Part::Distance) {
        distance::measure(args, &cluster, report).await?;
    }
    if args.wants(Part::Share) {
        tokio::task::block_in_place(|| share::measure(args, &cluster, report))?;
    }
    Ok(())
}

/// A schema with a store of its own.
pub(crate) struct Database {
    url: String,
}

impl Database {
    pub(crate) fn make(cluster: &Cluster, name: &str) -> Result<Self> {
        ensure!(
            cluster.execute(&format!("CREATE SCHEMA {name}")),
            "cannot make {name}"
        );
        Ok(Self::at(&cluster.url(), name))
    }

    /// Returns a schema that exists, at an address of its server.
    fn at(url: &str, name: &str) -> Self {
        let url = format!("{url}?options=-csearch_path%3D{name}");
        Self { url }
    }

    /// Starts a host on it.
    pub(crate) fn stage(&self) -> Result<Stage> {
        self.stage_with(Vec::new())
    }

    /// Starts a host on it with the handlers of another component.
    fn stage_of(&self, component: &str) -> Result<Stage> {
        Stage::stored(&[component], Vec::new(), self.env())
    }

    fn env(&self) -> Vec<(String, String)> {
        vec![("HOST_STORE_URL".to_owned(), self.url.clone())]
    }

    fn stage_with(&self, args: Vec<String>) -> Result<Stage> {
        Stage::stored(&["basics"], args, self.env())
    }
}

/// Runs a load, and returns jobs and commits per second.
async fn rates(cluster: &Cluster, stage: &Stage, shape: Shape, span: Duration) -> Result<[f64; 2]> {
    let commits = || -> Result<f64> {
        let sql = "SELECT sum(calls) FROM pg_stat_statements WHERE query = 'COMMIT'";
        Ok(cluster.ask(sql).parse().unwrap_or(0.0))
    };
    let before = commits()?;
    let sample = load::run(stage.server.address(), shape, span).await?;
    let per_job = (commits()? - before) / count(sample.jobs);
    Ok([sample.jobs_per_second, per_job * sample.jobs_per_second])
}

/// The host and the bare statements in turns, the latter in batches of the host's size.
async fn throughput(
    args: &Args,
    cluster: &Cluster,
    stage: &Stage,
    report: &mut Report,
) -> Result<()> {
    let span = Duration::from_secs_f64(args.seconds);
    for shape in SHAPES {
        let (mut hosts, mut batches, mut bares) = (Vec::new(), Vec::new(), Vec::new());
        for round in 1..=args.rounds {
            eprintln!("round {round} of {}, {}", args.rounds, shape.name());
            let [jobs, commits] = rates(cluster, stage, shape, span).await?;
            let batch = (jobs / commits.max(1.0)).round().max(1.0);
            hosts.push(jobs);
            batches.push(batch);
            bares.push(tokio::task::block_in_place(|| {
                bare::rate(cluster, batch, span)
            })?);
        }
        let name = shape.name();
        let bare = format!("{name}: bare statements in the same batches");
        let least = (shape.batch == 1).then_some(Target::AtLeast(SINGLES_PER_SECOND_MIN));
        report.add(name.as_str(), "jobs/s", hosts, least);
        report.add(format!("{name}: jobs in a batch"), "jobs", batches, None);
        report.add(bare.as_str(), "jobs/s", bares, None);
        let ratio = format!("{name}: host to bare statements");
        report.ratio(&ratio, &name, &bare, Target::AtLeast(BARE_RATIO_MIN));
    }
    let [singles, _, in_arrays] = SHAPES.map(Shape::name);
    let target = Target::AtLeast(ARRAYS_RATIO_MIN);
    report.ratio("arrays of 100 to single jobs", &in_arrays, &singles, target);
    let dead = "SELECT COALESCE(sum(n_dead_tup), 0) FROM pg_stat_user_tables \
                WHERE schemaname = 'bench'";
    let dead: f64 = cluster
        .ask(dead)
        .parse()
        .context("cannot count dead rows")?;
    report.add("dead rows after these loads", "rows", vec![dead], None);
    Ok(())
}

/// How many statements an idle host sends.
async fn idle(cluster: &Cluster, report: &mut Report) -> Result<()> {
    eprintln!("a host at rest");
    tokio::time::sleep(SETTLE).await;
    let statements = || -> Result<f64> {
        let sql = "SELECT sum(calls) FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat%'";
        cluster.ask(sql).parse().context("cannot count statements")
    };
    let before = statements()?;
    tokio::time::sleep(IDLE_SPAN).await;
    let per_second = (statements()? - before) / IDLE_SPAN.as_secs_f64();
    report.add(
        "at rest, statements of one host",
        "1/s",
        vec![per_second],
        Some(Target::AtMost(IDLE_STATEMENTS_MAX)),
    );
    Ok(())
}

/// The same load on a store with many jobs and on one without, in turns.
async fn seeded(args: &Args, cluster: &Cluster, empty: &Stage, report: &mut Report) -> Result<()> {
    let database = Database::make(cluster, "seeded")?;
    let full = database.stage()?;
    eprintln!(
        "{} jobs that wait and {} that have ended",
        args.waiting, args.ended
    );
    let full = tokio::task::block_in_place(|| {
        seed::fill(cluster, full, args.waiting, args.ended)?;
        database.stage()
    })?;
    let span = Duration::from_secs_f64(args.seconds);
    let (mut without, mut with) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}, beside many jobs", args.rounds);
        let sample = load::run(empty.server.address(), single(256), span).await?;
        without.push(sample.jobs_per_second);
        let sample = load::run(full.server.address(), single(256), span).await?;
        with.push(sample.jobs_per_second);
    }
    let name = "HTTP, 256 jobs in flight, beside many jobs";
    let beside = "HTTP, 256 jobs in flight, in turns with it";
    report.add("jobs that wait", "jobs", vec![count(args.waiting)], None);
    report.add(
        "jobs that have ended",
        "jobs",
        vec![count(args.ended)],
        None,
    );
    report.add(name, "jobs/s", with, None);
    report.add(beside, "jobs/s", without, None);
    let target = Target::AtLeast(SEEDED_RATIO_MIN);
    report.ratio("beside many jobs to without", name, beside, target);
    full.stop()
}

/// Several hosts on one database: all under one load, and each under a load of its own.
async fn nodes(args: &Args, cluster: &Cluster, report: &mut Report) -> Result<()> {
    let loads = [
        ("256 jobs in flight on", true),
        ("256 jobs in flight on each of", false),
    ];
    for (load, is_shared) in loads {
        let named = |nodes: usize| format!("{load} {nodes} nodes");
        let cost_of = |nodes: usize| format!("{}, CPU of the server", named(nodes));
        let mut before = None;
        for &nodes in &args.nodes {
            let in_flight = if is_shared { 256 / nodes } else { 256 };
            let schema = format!("nodes_{nodes}");
            let database = Database::make(cluster, &schema)?;
            let measured = beside_each_other(args, cluster, &database, nodes, in_flight).await?;
            let sql = format!("DROP SCHEMA {schema} CASCADE");
            ensure!(cluster.execute(&sql), "cannot drop {schema}");
            let (rates, costs) = measured;
            let (name, cost) = (named(nodes), cost_of(nodes));
            report.add(name.as_str(), "jobs/s", rates, None);
            report.add(cost.as_str(), "µs/job", costs, None);
            if let Some(fewer) = before.replace(nodes) {
                let ratio = format!("{name} to {fewer}");
                let target = Target::AtLeast(NODES_RATIO_MIN);
                report.ratio(&ratio, &name, &named(fewer), target);
                let first = args.nodes[0];
                let ratio = format!("{cost}, to {first}");
                let target = Target::AtMost(NODES_CPU_MAX);
                report.ratio(&ratio, &cost, &cost_of(first), target);
            }
        }
    }
    Ok(())
}

/// Starts hosts on a new store and ends them. Returns their total jobs per second in each round, and the server's CPU time
/// per job, in microseconds.
async fn beside_each_other(
    args: &Args,
    cluster: &Cluster,
    database: &Database,
    nodes: usize,
    in_flight: usize,
) -> Result<(Vec<f64>, Vec<f64>)> {
    let stages = (0..nodes)
        .map(|_| database.stage())
        .collect::<Result<Vec<_>>>()?;
    let span = Duration::from_secs_f64(args.seconds);
    let (mut rates, mut costs) = (Vec::new(), Vec::new());
    for round in 1..=args.rounds {
        eprintln!("round {round} of {}, {nodes} nodes", args.rounds);
        let used = server_cpu_us(cluster)?;
        let mut loads = JoinSet::new();
        for stage in &stages {
            let address = stage.server.address().to_owned();
            loads.spawn(async move { load::run(&address, single(in_flight), span).await });
        }
        let (mut rate, mut jobs) = (0.0, 0);
        while let Some(sample) = loads.join_next().await {
            let sample = sample.context("a load panicked")??;
            rate += sample.jobs_per_second;
            jobs += sample.jobs;
        }
        rates.push(rate);
        costs.push((server_cpu_us(cluster)? - used) / count(jobs));
    }
    for stage in stages {
        stage.stop()?;
    }
    Ok((rates, costs))
}

/// Returns the CPU time of the server's running processes, in microseconds.
fn server_cpu_us(cluster: &Cluster) -> Result<f64> {
    let children = cells(cluster.pid())?;
    Ok(children
        .into_iter()
        .filter_map(|pid| cpu_us(pid).ok())
        .sum())
}
