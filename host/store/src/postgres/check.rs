//! Checks a store: that every job obeys the rules, and that the tables agree. It changes nothing, and hosts
//! may use the store at the same time. To check the server's files, use its own tools (`pg_amcheck`).

use std::pin::pin;

use futures_util::StreamExt as _;
use host_core::id::JobId;
use host_core::invariants;
use host_core::job::{Lifecycle, LimitKey, STATES};
use host_core::name::Name;
use host_core::outcome::Attempt;
use host_engine::StoreError;
use host_engine::audit::{Chain, Entry};
use host_engine::schedule::KeptSchedule;
use host_engine::table::{Range, Record as _};
use tokio_postgres::Row;
use uuid::Uuid;

use super::client::{Client, LONG, rows};
use super::columns::Column;
use super::target::Target;
use super::trouble::doing;
use super::{admin, copy, limits, schema, tables};
use crate::finding::{Finding, Findings, is_compared, unreadable};
use crate::parts::{PARTS, StorePart};
use crate::record::decode;

/// Queries that find errors, each with the text of the finding. Every row is one finding, and names what
/// it concerns.
const ORPHANS: [(&str, &str); 11] = [
    (
        "SELECT 'job ' || id FROM both_jobs WHERE NOT EXISTS (SELECT FROM host_payloads WHERE job = id)",
        "its params are missing",
    ),
    (
        "SELECT 'job ' || id FROM host_live JOIN host_ended USING (id)",
        "it is both in the table of ended jobs and in that of live jobs",
    ),
    (
        "SELECT 'params of job ' || job FROM host_payloads \
         WHERE NOT EXISTS (SELECT FROM both_jobs WHERE id = job)",
        "they belong to no job",
    ),
    (
        "SELECT 'attempt ' || number || ' of job ' || job FROM host_attempts \
         WHERE NOT EXISTS (SELECT FROM both_jobs WHERE id = job)",
        "it belongs to no job",
    ),
    (
        "SELECT 'a unique key of queue ' || queue FROM host_unique_keys AS keys \
         WHERE NOT EXISTS (SELECT FROM both_jobs WHERE id = keys.job)",
        "it refers to no job",
    ),
    (
        "SELECT 'job ' || id FROM host_live WHERE state = 0 AND waits_for IS NULL AND NOT EXISTS \
         (SELECT FROM host_dependencies WHERE dependent = host_live.id)",
        "it waits for no job",
    ),
    (
        "SELECT 'job ' || dependent FROM host_dependencies AS waits WHERE NOT EXISTS \
         (SELECT FROM both_jobs WHERE id = prerequisite AND state <> 5) AND NOT EXISTS \
         (SELECT FROM host_cascades WHERE host_cascades.prerequisite = waits.prerequisite)",
        "it waits for a job that is gone or has completed",
    ),
    (
        "SELECT 'the state ' || space FROM host_state_spaces AS kept FULL JOIN \
         (SELECT space, count(*) AS keys, sum(octet_length(key) + octet_length(value) + 64) AS bytes \
          FROM host_state GROUP BY space) AS found USING (space) \
         WHERE COALESCE(kept.keys, 0) <> COALESCE(found.keys, 0) \
         OR COALESCE(kept.bytes, 0) <> COALESCE(found.bytes, 0)",
        "its size differs from that of its keys",
    ),
    (
        "SELECT DISTINCT 'firings of schedule ' || schedule FROM host_firings \
         WHERE NOT EXISTS (SELECT FROM host_schedules WHERE name = schedule)",
        "they belong to no schedule",
    ),
    (
        "SELECT 'component ' || name FROM host_components WHERE current > 0 AND NOT EXISTS \
         (SELECT FROM host_revisions JOIN host_blobs USING (digest) \
          WHERE component = name AND revision = current)",
        "its current revision is missing",
    ),
    (
        "SELECT 'queue ' || queue FROM both_jobs \
         WHERE NOT EXISTS (SELECT FROM host_queues WHERE name = queue) GROUP BY queue",
        "it has jobs but is not registered",
    ),
];

/// The jobs of both tables, before a query.
const BOTH: &str = "WITH both_jobs AS (SELECT id, state, queue FROM host_live \
                    UNION ALL SELECT id, state, queue FROM host_ended) ";

/// How many rows pass between two reports of progress.
const REPORT_ROWS: u64 = 10_000;

/// How many entries of the audit are read at a time.
const AUDIT_CHUNK: u32 = 1_000;

/// Receives what is being checked, and how many of its rows are done.
pub type OnProgress<'a> = &'a mut dyn FnMut(&str, u64);

/// Checks the store of a target. Returns no findings if nothing is wrong, and `None` if there is no store.
/// The server ends its part if this process ends.
pub fn check(
    target: &Target,
    on_progress: OnProgress<'_>,
) -> Result<Option<Vec<Finding>>, StoreError> {
    admin::ask(target, async |client| {
        let version = schema::version(client).await?;
        schema::refuse_newer(version)?;
        if version == 0 {
            return Ok(None);
        }
        let mut findings = Findings::default();
        if let Err(error) = inspect(&mut findings, client, on_progress).await {
            findings.add("the store", error.to_string());
        }
        Ok(Some(findings.found))
    })
}

async fn inspect(
    findings: &mut Findings,
    client: &Client,
    on_progress: OnProgress<'_>,
) -> Result<(), StoreError> {
    let checking = doing("check the store");
    let begin = format!("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; {LONG}");
    client.batch_execute(&begin).await.map_err(checking)?;
    for table in ["host_live", "host_ended"] {
        jobs(findings, client, table, on_progress).await?;
    }
    attempts(findings, client, on_progress).await?;
    records(findings, client, on_progress).await?;
    audit(findings, client, on_progress).await?;
    on_progress("schedules", 0);
    schedules(findings, client).await?;
    on_progress("the numbers of queues", 0);
    counts(findings, client).await?;
    on_progress("the keys of limits", 0);
    limits(findings, client).await?;
    on_progress("batches", 0);
    if let Some(batches) = findings.readable(tables::list(client, Range::all()).await)? {
        findings.compare_batches(batches);
    }
    for (sql, message) in ORPHANS {
        on_progress("that the tables agree", 0);
        let sql = format!("{BOTH}{sql}");
        for row in rows(client, "check the store", &sql, &[]).await? {
            findings.add(row.get::<_, String>(0), message);
        }
    }
    Ok(())
}

/// Compares how much of the keys of limits is used with the jobs.
async fn limits(findings: &mut Findings, client: &Client) -> Result<(), StoreError> {
    let Some(limits) = findings.readable(limits::all(client).await)? else {
        return Ok(());
    };
    findings.compare_keys(&limits, tables::list(client, Range::all()).await?);
    findings.compare_listed(limits::all_listed(client).await?);
    Ok(())
}

/// Reads all records, except those of jobs, which are compared with their columns.
async fn records(
    findings: &mut Findings,
    client: &Client,
    on_progress: OnProgress<'_>,
) -> Result<(), StoreError> {
    let others = PARTS.into_iter().enumerate();
    for (part, StorePart { name, .. }) in others.filter(|(part, _)| !is_compared(*part)) {
        each(client, (name, &copy::reading(part)), on_progress, |row| {
            let values = (0..row.len()).map(|column| row.get::<_, Column<_>>(column).0);
            findings.record(part, &values.collect());
        })
        .await?;
    }
    Ok(())
}

/// Calls `see` with each row of `part`, without all of them in memory at the same time.
async fn each(
    client: &Client,
    (part, sql): (&str, &str),
    on_progress: OnProgress<'_>,
    mut see: impl FnMut(&Row),
) -> Result<(), StoreError> {
    let checking = doing("check the store");
    let mut rows = pin!(client.stream(sql).await.map_err(checking)?);
    let mut done: u64 = 0;
    while let Some(row) = rows.next().await {
        if done.is_multiple_of(REPORT_ROWS) {
            on_progress(part, done);
        }
        done += 1;
        see(&row.map_err(checking)?);
    }
    Ok(())
}

async fn jobs(
    findings: &mut Findings,
    client: &Client,
    table: &str,
    on_progress: OnProgress<'_>,
) -> Result<(), StoreError> {
    let has_ended = table == "host_ended";
    let part = if has_ended {
        "jobs that have ended"
    } else {
        "jobs that have not ended"
    };
    let sql = format!(
        "SELECT id, state, queue, priority, suspect, handler, runner, wakeup_at, body, waits_for, batch \
         FROM {table}"
    );
    each(client, (part, &sql), on_progress, |row| {
        let id = JobId(row.get(0));
        let what = format!("job {id}");
        let job: Lifecycle = match decode(row.get(8), String::new) {
            Ok(job) => job,
            Err(error) => return findings.add(what, unreadable(error)),
        };
        if let Err(broken) = invariants::check(&job) {
            findings.add(what.as_str(), format!("violates the rule: {}", broken.0));
        }
        if job.state.is_terminal() != has_ended {
            findings.add(what.as_str(), format!("it is in the wrong table, {table}"));
        }
        findings.tally.add(&job);
        if let Some(column) = differing(row, &job) {
            findings.add(what, format!("its {column} differs from its record"));
        }
    })
    .await
}

/// Returns the first column of a job that differs from its record.
fn differing(row: &Row, job: &Lifecycle) -> Option<&'static str> {
    let columns = [
        ("id", JobId(row.get(0)) == job.id),
        ("state", row.get::<_, i16>(1) == job.state as i16),
        ("queue", row.get::<_, &str>(2) == job.queue.as_str()),
        ("priority", row.get::<_, i16>(3) == i16::from(job.priority)),
        ("suspect", row.get::<_, bool>(4) == job.suspicion.is_apart()),
        ("handler", row.get::<_, &str>(5) == job.handler.as_str()),
        (
            "runner",
            row.get::<_, Option<&str>>(6) == job.executor.as_ref().map(Name::as_str),
        ),
        (
            "wakeup",
            row.get::<_, Option<i64>>(7) == job.wakeup().map(|at| at.0),
        ),
        (
            "limit",
            row.get::<_, Option<String>>(9) == job.waits_for_key().map(LimitKey::to_string),
        ),
        (
            "batch",
            row.get::<_, Option<Uuid>>(10) == job.batch.map(|batch| batch.0),
        ),
    ];
    let differs = columns.into_iter().find(|(_, agrees)| !agrees);
    differs.map(|(column, _)| column)
}

async fn attempts(
    findings: &mut Findings,
    client: &Client,
    on_progress: OnProgress<'_>,
) -> Result<(), StoreError> {
    let sql = "SELECT job, number, body FROM host_attempts";
    each(client, ("attempts", sql), on_progress, |row| {
        let (job, number): (_, i64) = (JobId(row.get(0)), row.get(1));
        let what = format!("attempt {number} of job {job}");
        match decode::<Attempt>(row.get(2), String::new) {
            Err(error) => findings.add(what, unreadable(error)),
            Ok(attempt) if i64::from(attempt.number) != number => {
                findings.add(what, "its number differs from its record");
            }
            Ok(_) => {}
        }
    })
    .await
}

/// Follows the chain of the audit.
async fn audit(
    findings: &mut Findings,
    client: &Client,
    on_progress: OnProgress<'_>,
) -> Result<(), StoreError> {
    let mut chain = Chain::default();
    loop {
        let after = chain.last().map_or(0, |entry| entry.number);
        on_progress("entries of the audit", after);
        let entries =
            tables::list::<Entry>(client, Range::all().after(after).first(AUDIT_CHUNK)).await?;
        if entries.is_empty() {
            findings.end_of(&chain);
            return Ok(());
        }
        for entry in entries {
            findings.entry(&mut chain, entry);
        }
    }
}

/// Compares when schedules fire.
async fn schedules(findings: &mut Findings, client: &Client) -> Result<(), StoreError> {
    let sql = "SELECT name, fires_at, holds FROM host_schedules";
    for row in rows(client, "check the store", sql, &[]).await? {
        let what = format!("schedule {}", row.get::<_, &str>(0));
        let Ok(name) = row.get::<_, &str>(0).parse::<Name>() else {
            continue;
        };
        let indexed = (row.get(1), row.get(2));
        let kept = findings.readable(
            tables::list::<KeptSchedule>(client, Range::of(KeptSchedule::key(&name))).await,
        )?;
        if kept
            .and_then(|mut kept| kept.pop())
            .is_some_and(|kept| (kept.fires_at().map(|at| at.0), kept.holds()) != indexed)
        {
            findings.add(what, "when it fires differs from its record");
        }
    }
    Ok(())
}

/// Compares the numbers of queues with the rows they count.
async fn counts(findings: &mut Findings, client: &Client) -> Result<(), StoreError> {
    let sql = format!(
        "{BOTH}SELECT queue, state, COALESCE(counted, 0)::bigint, COALESCE(there, 0)::bigint \
         FROM (SELECT queue, state, sum(jobs) AS counted FROM host_counts WHERE state < 8 \
               GROUP BY queue, state) AS kept \
         FULL JOIN (SELECT queue, state, count(*) AS there FROM both_jobs GROUP BY queue, state) \
         AS found USING (queue, state) \
         WHERE COALESCE(counted, 0) <> COALESCE(there, 0) ORDER BY queue, state"
    );
    for row in rows(client, "check the store", &sql, &[]).await? {
        let index = usize::try_from(row.get::<_, i16>(1)).unwrap_or(STATES.len());
        let state = STATES.get(index).map_or("unknown", |state| state.as_str());
        let (counted, there): (i64, i64) = (row.get(2), row.get(3));
        findings.add(
            format!("queue {}", row.get::<_, &str>(0)),
            format!("its number of {state} jobs is {counted}, but there are {there}"),
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use host_testing::database::{Database, database};

    use super::*;

    /// A plan without a subplan reads each table a fixed number of times, however little memory the server
    /// uses for a query.
    #[test]
    fn no_row_of_a_check_scans_another_table() {
        let folder = &database().folder;
        let schema = include_str!("schema/1.sql");
        let explain = |(sql, _)| format!("EXPLAIN {BOTH}{sql};");
        let plans: String = ORPHANS.into_iter().map(explain).collect();
        let sql = format!("BEGIN; {schema} SET LOCAL work_mem = '64kB'; {plans} ROLLBACK;");
        let plans = Database::client(folder, host_testing::database::PORT, &sql).unwrap();
        assert!(plans.contains("Anti Join"), "{plans}");
        assert!(!plans.contains("SubPlan"), "{plans}");
    }
}
