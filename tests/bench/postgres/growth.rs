//! What a long load leaves behind: dead rows and the sizes of tables with their indexes, after each round.
//! Jobs are removed soon after they have ended. If the host keeps up with its garbage, the last round looks
//! like the first ones.

use std::time::Duration;

use anyhow::{Context, Result};
use host_tests::Cluster;

use super::{Database, build_folder};
use crate::Args;
use crate::load;
use crate::report::Report;
use crate::rounds::single;

const SCHEMA: &str = "growth";

/// How long ended jobs are kept, in seconds.
const RETENTION_SECONDS: u64 = 300;

/// A load that leaves time to collect garbage, even on two cores.
const IN_FLIGHT: usize = 16;

/// The tables whose rows come and go, and those of ended jobs.
const BUSY: &[&str] = &[
    "host_live",
    "host_log",
    "host_nodes",
    "host_counts",
    "host_changes",
];
const KEPT: &[&str] = &["host_ended", "host_payloads", "host_attempts"];

const MIB: f64 = 1_048_576.0;

/// Sums a column over some tables.
fn sum(cluster: &Cluster, column: &str, tables: &[&str]) -> Result<f64> {
    let tables = tables.join("', '");
    let sql = format!(
        "SELECT COALESCE(sum({column}), 0) FROM pg_stat_user_tables \
         WHERE schemaname = '{SCHEMA}' AND relname IN ('{tables}')"
    );
    let sum = cluster.ask(&sql).parse::<f64>();
    sum.with_context(|| format!("cannot read {column}"))
}

pub(crate) async fn measure(args: &Args, cluster: &Cluster, report: &mut Report) -> Result<()> {
    let config = tempfile::NamedTempFile::new_in(build_folder()?).context("cannot make a file")?;
    let text = format!(
        "[queues.{}]\nretention_seconds = {RETENTION_SECONDS}\n",
        load::QUEUE
    );
    std::fs::write(&config, text).context("cannot write the configuration")?;
    let config = config.path().display().to_string();
    let stage = Database::make(cluster, SCHEMA)?.stage_with(vec!["--config".to_owned(), config])?;
    let span = Duration::from_secs_f64(args.seconds);
    let [mut rates, mut dead, mut busy, mut kept] = [const { Vec::new() }; 4];
    let mut jobs = 0;
    for round in 1..=args.rounds {
        let sample = load::run(stage.server.address(), single(IN_FLIGHT), span).await?;
        rates.push(sample.jobs_per_second);
        jobs += sample.jobs;
        dead.push(sum(cluster, "n_dead_tup", BUSY)? + sum(cluster, "n_dead_tup", KEPT)?);
        let size = "pg_total_relation_size(relid)";
        busy.push(sum(cluster, size, BUSY)? / MIB);
        let ended = sum(cluster, "n_live_tup", &["host_ended"])?.max(1.0);
        kept.push(sum(cluster, size, KEPT)? / ended);
        eprintln!(
            "round {round} of {}: {:.0} jobs/s ({} in all), {:.0} dead rows, {:.1} MiB of tables that are always \
             written, {:.0} bytes for each of {ended:.0} jobs that have ended",
            args.rounds,
            sample.jobs_per_second,
            jobs,
            dead[round - 1],
            busy[round - 1],
            kept[round - 1],
        );
    }
    report.add("a long load", "jobs/s", rates, None);
    report.add("dead rows after each round", "rows", dead, None);
    report.add("tables that are always written", "MiB", busy, None);
    report.add("tables of jobs that have ended", "B/job", kept, None);
    stage.stop()
}
