//! Hosts whose jobs are in `PostgreSQL`, compared with the bare statements on the same server, and with each other. The
//! server has its default durability, with its data in the build folder.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use host_tests::Cluster;
use tokio::task::JoinSet;

use crate::load::{Shape, arrays, run, single};
use crate::numbers::count;
use crate::process::{cells, cpu_us};
use crate::report::{Report, Target};
use crate::{Args, Stage, build_folder};

/// 256 jobs are two and a half arrays, each of which waits for the one before. 2,560 are as many arrays in
/// flight as the host can use.
pub(crate) const SHAPES: [Shape; 3] = [single(256), arrays(256), arrays(2_560)];

/// The targets.
const BARE_RATIO_MIN: f64 = 0.5;
const SINGLES_PER_SECOND_MIN: f64 = 5_000.0;
const ARRAYS_RATIO_MIN: f64 = 1.5;
const NODES_RATIO_MIN: f64 = 1.0;

/// How many hosts share a database and its load.
const NODES: [usize; 3] = [1, 2, 4];

/// Statements are counted, and there are enough connections for four hosts and another queue.
pub(crate) const SETTINGS: [&str; 3] = [
    "max_connections=200",
    "shared_preload_libraries=pg_stat_statements",
    "shared_buffers=256MB",
];

/// A table with the columns that a queue needs.
const TABLE: &str = "\
DROP TABLE IF EXISTS bare;
CREATE TABLE bare (
  seq bigserial PRIMARY KEY,
  id uuid NOT NULL UNIQUE,
  state smallint NOT NULL,
  body bytea NOT NULL,
  params text NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX bare_claim ON bare (seq) WHERE state = 2;
CREATE INDEX bare_running ON bare (seq) WHERE state = 3;";

/// Completes, inserts and claims a batch of jobs in one transaction.
const BATCH: &str = r#"
\startpipeline
BEGIN;
UPDATE bare SET state = 5 WHERE state = 3;
INSERT INTO bare (id, state, body, params) SELECT gen_random_uuid(), 2,
  '\x0310019900000000700080000000000000010507646566', '{"n":12345}' FROM generate_series(1, :batch);
UPDATE bare SET state = 3 WHERE seq IN
  (SELECT seq FROM bare WHERE state = 2 ORDER BY seq LIMIT :batch FOR UPDATE SKIP LOCKED)
  RETURNING id, params;
COMMIT;
\endpipeline
"#;

pub(crate) async fn measure(args: &Args, report: &mut Report) -> Result<()> {
    let cluster = Cluster::start(&build_folder()?, &SETTINGS);
    ensure!(
        cluster.execute("CREATE EXTENSION pg_stat_statements"),
        "no pg_stat_statements"
    );
    throughput(args, &cluster, report).await?;
    for nodes in NODES {
        share_load(args, &cluster, nodes, report).await?;
    }
    for pair in NODES.windows(2) {
        let (name, fewer) = (nodes_row(pair[1]), nodes_row(pair[0]));
        let target = Target::AtLeast(NODES_RATIO_MIN);
        report.ratio(&format!("{name} to {}", pair[0]), &name, &fewer, target);
    }
    Ok(())
}

/// Starts a host on a new schema.
pub(crate) fn start_host(cluster: &Cluster, schema: &str) -> Result<Stage> {
    let sql = format!("CREATE SCHEMA {schema}");
    ensure!(cluster.execute(&sql), "cannot make {schema}");
    join_host(cluster, schema)
}

/// Starts another host on a schema.
fn join_host(cluster: &Cluster, schema: &str) -> Result<Stage> {
    Stage::stored(&["basics"], store_at(cluster, schema))
}

/// Returns the variables with which a host keeps its jobs in a schema.
pub(crate) fn store_at(cluster: &Cluster, schema: &str) -> Vec<(String, String)> {
    let url = format!("{}?options=-csearch_path%3D{schema}", cluster.url());
    vec![("HOST_STORE_URL".to_owned(), url)]
}

/// The host and the bare statements in turns, the latter in batches of the host's size.
async fn throughput(args: &Args, cluster: &Cluster, report: &mut Report) -> Result<()> {
    let stage = start_host(cluster, "bench")?;
    let commits = || -> Result<f64> {
        let sql = "SELECT COALESCE(sum(calls), 0) FROM pg_stat_statements WHERE query = 'COMMIT'";
        cluster.ask(sql).parse().context("cannot count commits")
    };
    for shape in SHAPES {
        let name = shape.name();
        let bare = format!("{name}: bare statements in the same batches");
        for _ in args.rounds(&name) {
            let before = commits()?;
            let sample = run(stage.address(), shape, args.span()).await?;
            let batch = (count(sample.jobs) / (commits()? - before).max(1.0)).round();
            report.push(&name, "jobs/s", sample.jobs_per_second);
            report.push(&format!("{name}: jobs in a batch"), "jobs", batch);
            let rate = tokio::task::block_in_place(|| {
                bare_statements(cluster, batch.max(1.0), args.span())
            })?;
            report.push(&bare, "jobs/s", rate);
        }
        let ratio = format!("{name}: host to bare statements");
        report.ratio(&ratio, &name, &bare, Target::AtLeast(BARE_RATIO_MIN));
    }
    let [singles, _, in_arrays] = SHAPES.map(Shape::name);
    report.target(&singles, Target::AtLeast(SINGLES_PER_SECOND_MIN));
    let target = Target::AtLeast(ARRAYS_RATIO_MIN);
    report.ratio("arrays of 100 to single jobs", &in_arrays, &singles, target);
    stage.stop()
}

/// Returns how many jobs per second the server moves through all three statements.
fn bare_statements(cluster: &Cluster, batch: f64, span: Duration) -> Result<f64> {
    ensure!(
        cluster.execute(TABLE),
        "cannot make the table of the bare statements"
    );
    let script = tempfile::NamedTempFile::new().context("cannot make a file")?;
    std::fs::write(&script, BATCH).context("cannot write a file")?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&script, readable).context("cannot open a file")?;
    let mut pgbench = cluster.command(&Cluster::program("pgbench"));
    pgbench
        .args(["--no-vacuum", "--protocol", "prepared"])
        .args(["--username", "postgres"])
        .arg("--host")
        .arg(cluster.folder())
        .arg("--time")
        .arg(span.as_secs().max(1).to_string())
        .arg("--define")
        .arg(format!("batch={batch}"))
        .arg("--file")
        .arg(script.path())
        .arg("postgres")
        // The host's planner settings: otherwise the server scans the whole table again and again.
        .env("PGOPTIONS", "-c enable_seqscan=off -c jit=off");
    let output = pgbench.output().context("cannot start pgbench")?;
    let text = String::from_utf8_lossy(&output.stdout);
    let tps = text
        .lines()
        .find_map(|line| line.strip_prefix("tps = "))
        .and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok())
        .with_context(|| String::from_utf8_lossy(&output.stderr).into_owned())?;
    Ok(tps * batch)
}

fn nodes_row(nodes: usize) -> String {
    format!("256 jobs in flight on {nodes} nodes")
}

/// The same load, shared by hosts on one database.
async fn share_load(
    args: &Args,
    cluster: &Cluster,
    nodes: usize,
    report: &mut Report,
) -> Result<()> {
    let (name, schema) = (nodes_row(nodes), format!("nodes_{nodes}"));
    let mut stages = vec![start_host(cluster, &schema)?];
    for _ in 1..nodes {
        stages.push(join_host(cluster, &schema)?);
    }
    for _ in args.rounds(&name) {
        let before = server_cpu_us(cluster)?;
        let mut loads = JoinSet::new();
        for stage in &stages {
            let (address, span) = (stage.address().to_owned(), args.span());
            loads.spawn(async move { run(&address, single(256 / nodes), span).await });
        }
        let (mut rate, mut jobs) = (0.0, 0);
        while let Some(sample) = loads.join_next().await {
            let sample = sample.context("a load panicked")??;
            rate += sample.jobs_per_second;
            jobs += sample.jobs;
        }
        report.push(&name, "jobs/s", rate);
        let used = server_cpu_us(cluster)? - before;
        report.push(
            &format!("{name}, CPU of the server"),
            "µs/job",
            used / count(jobs),
        );
    }
    stages.into_iter().try_for_each(Stage::stop)
}

/// Returns the CPU time of the server's running processes, in microseconds.
fn server_cpu_us(cluster: &Cluster) -> Result<f64> {
    let children = cells(cluster.pid())?;
    Ok(children
        .into_iter()
        .filter_map(|pid| cpu_us(pid).ok())
        .sum())
}
