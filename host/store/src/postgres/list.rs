//! Lists and counts the jobs that match a filter. The database compares columns; encoded fields are compared
//! here, in chunks, so that a page examines a bounded number of jobs.

use std::collections::BTreeMap;

use host_core::id::JobId;
use host_core::job::{Lifecycle, PRIORITY_LAST, Payload, State};
use host_core::name::Name;
use host_core::outcome::Attempt;
use host_core::query::{Cursor, JobCount, JobFilter, Order, PAGE_ITEMS_MAX, Page};
use host_core::time::Time;
use uuid::Uuid;

use super::client::{Client, rows};
use super::rows::payload_of;
use crate::error::StoreError;
use crate::record::decode;
use crate::scan::Budget;
use crate::start;

/// How many jobs are read at once.
const CHUNK_JOBS_MAX: u32 = 1_000;

/// How many with their params, which may be large.
const CHUNK_WHOLE_JOBS_MAX: u32 = 100;

/// Returns the jobs of one page.
pub(super) async fn page(
    client: &Client,
    filter: &JobFilter,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page<Lifecycle>, StoreError> {
    let limit = limit.min(PAGE_ITEMS_MAX);
    let (mut items, mut last) = (Vec::new(), None);
    let chunk = if is_by_columns(filter) {
        limit + 1
    } else {
        chunk(filter)
    };
    let budget = Budget::of_page();
    let stopped = examine(client, filter, after, chunk, budget, |seq, job| {
        items.extend(job);
        last = Some(seq);
        items.len() < limit as usize
    })
    .await?;
    let last = last.filter(|_| stopped).map(i64::unsigned_abs);
    Ok(Page {
        items,
        next: last.map(Cursor),
    })
}

/// Counts the jobs that match, among the first after a place: `examined_max`, or fewer if more than lifecycles must be
/// read.
pub(super) async fn count(
    client: &Client,
    filter: &JobFilter,
    after: Option<Cursor>,
    examined_max: u64,
) -> Result<JobCount, StoreError> {
    let (mut count, mut last) = (JobCount::default(), 0_i64);
    let budget = Budget::of_count(examined_max);
    let stopped = examine(client, filter, after, chunk(filter), budget, |seq, job| {
        last = seq;
        if let Some(job) = job {
            count.add(&job);
        }
        true
    })
    .await?;
    count.complete = !stopped;
    count.next = stopped.then_some(Cursor(last.unsigned_abs()));
    Ok(count)
}

/// Returns when the oldest available job of each queue was enqueued: of those for cells and for these runners.
pub(super) async fn oldest_available(
    client: &Client,
    queues: &[Name],
    runners: &[Name],
) -> Result<Vec<(Name, Time)>, StoreError> {
    // One job for each queue, priority and lane, each from the index for claims.
    let sql = "SELECT DISTINCT ON (asked) asked, first.id, first.body \
               FROM unnest($1::text[]) AS asked CROSS JOIN generate_series(0, $3) AS urgency \
               CROSS JOIN LATERAL (\
                 (SELECT seq, id, body FROM host_live WHERE state = 2 AND NOT suspect AND runner IS NULL \
                  AND queue = asked AND priority = urgency ORDER BY rank LIMIT 1) \
                 UNION ALL SELECT of_runner.* FROM unnest($2::text[]) AS pool CROSS JOIN LATERAL (\
                   SELECT seq, id, body FROM host_live WHERE state = 2 AND runner = pool \
                   AND queue = asked AND priority = urgency ORDER BY rank LIMIT 1) AS of_runner\
               ) AS first ORDER BY asked, first.seq";
    let names = |names: &[Name]| names.iter().map(Name::to_string).collect::<Vec<_>>();
    let (queues, runners) = (names(queues), names(runners));
    let last = i32::from(PRIORITY_LAST);
    let mut all = Vec::new();
    for row in rows(
        client,
        "find the oldest jobs",
        sql,
        &[&queues, &runners, &last],
    )
    .await?
    {
        let id = JobId(row.get(1));
        let job: Lifecycle = decode(row.get(2), || format!("job {id}"))?;
        all.push((job.queue, job.enqueued_at));
    }
    Ok(all)
}

/// Returns the wire of each job.
pub(super) async fn wires(
    client: &Client,
    jobs: &[JobId],
) -> Result<BTreeMap<JobId, String>, StoreError> {
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.0).collect();
    let sql = "SELECT job, wire FROM host_payloads WHERE job = ANY($1)";
    let found = rows(client, "read the origin of jobs", sql, &[&ids]).await?;
    Ok(found
        .iter()
        .map(|row| (JobId(row.get(0)), row.get(1)))
        .collect())
}

/// Returns the latest ended attempt of each job.
pub(super) async fn latest_attempts(
    client: &Client,
    jobs: &[JobId],
) -> Result<BTreeMap<JobId, Attempt>, StoreError> {
    let ids: Vec<Uuid> = jobs.iter().map(|id| id.0).collect();
    let sql = "SELECT job, body FROM unnest($1::uuid[]) AS wanted (id) CROSS JOIN LATERAL \
               (SELECT job, body FROM host_attempts WHERE job = wanted.id \
                ORDER BY number DESC LIMIT 1) AS latest";
    let mut latest = BTreeMap::new();
    for row in rows(client, "read jobs' attempts", sql, &[&ids]).await? {
        let id = JobId(row.get(0));
        let attempt = decode(row.get(1), || format!("an attempt of job {id}"))?;
        latest.insert(id, attempt);
    }
    Ok(latest)
}

/// Returns whether columns alone decide what matches.
fn is_by_columns(filter: &JobFilter) -> bool {
    let decoded = [
        filter.since.is_some(),
        filter.until.is_some(),
        filter.failure.is_some(),
        filter.handlers.is_some(),
        !filter.scope.is_all(),
    ];
    !decoded.contains(&true) && filter.is_of_lifecycles()
}

/// Returns how many jobs are read at once, if what is read of each decides whether it matches.
fn chunk(filter: &JobFilter) -> u32 {
    if filter.needs_payload() {
        CHUNK_WHOLE_JOBS_MAX
    } else {
        CHUNK_JOBS_MAX
    }
}

/// A query for the jobs that match by columns, in the order of the filter. Tables that can have none and conditions
/// that the filter lacks are left out, and the state is no parameter, so that the planner sees which index fits.
fn select(filter: &JobFilter) -> String {
    let (place, order) = match filter.order {
        Order::Newest => ("seq < $1", "DESC"),
        Order::Oldest => ("seq > $1", "ASC"),
    };
    // A value that is left out keeps its number.
    let optional = [
        (
            filter.queue.is_some(),
            " AND queue = $3",
            " AND $3::text IS NULL",
        ),
        (
            filter.handler.is_some(),
            " AND handler = $4 AND runner IS NOT DISTINCT FROM $5",
            " AND $4::text IS NULL AND $5::text IS NULL",
        ),
        (
            filter.id.is_some(),
            " AND id BETWEEN $6 AND $7",
            " AND $6::uuid IS NULL AND $7::uuid IS NULL",
        ),
        (
            filter.batch.is_some(),
            " AND batch = $8",
            " AND $8::uuid IS NULL",
        ),
    ];
    let state = filter
        .state
        .map(|state| format!(" AND state = {}", state as i16));
    let conditions: String = optional
        .into_iter()
        .map(|(is_set, condition, unused)| if is_set { condition } else { unused })
        .chain(state.as_deref())
        .collect();
    let tables = match filter.state.map(State::is_terminal) {
        Some(true) => &["host_ended"][..],
        Some(false) => &["host_live"],
        None => &["host_live", "host_ended"],
    };
    let table = |table: &&str| {
        format!(
            "(SELECT seq, id, body FROM {table} WHERE {place}{conditions} ORDER BY seq {order} LIMIT $2)"
        )
    };
    let tables: Vec<String> = tables.iter().map(table).collect();
    let tables = tables.join(" UNION ALL ");
    format!("SELECT seq, id, body FROM ({tables}) AS found ORDER BY seq {order} LIMIT $2")
}

/// Calls `see` for each job that matches by columns, with the job if it matches completely, until `see` wants no more or
/// the budget is spent. Returns whether a job was left out.
async fn examine(
    client: &Client,
    filter: &JobFilter,
    after: Option<Cursor>,
    chunk: u32,
    mut budget: Budget,
    mut see: impl FnMut(i64, Option<Lifecycle>) -> bool,
) -> Result<bool, StoreError> {
    let (low, high) = match filter.id.as_deref().map(start::ids) {
        Some(None) => return Ok(false),
        Some(Some((low, high))) => (Some(low.0), Some(high.0)),
        None => (None, None),
    };
    let sql = select(filter);
    let queue = filter.queue.as_ref().map(Name::as_str);
    if let (Some(queue), Some(state)) = (queue, filter.state)
        && !has_some(client, queue, state).await?
    {
        return Ok(false);
    }
    let (runner, handler) = filter.handler.clone().unzip();
    let runner = runner.flatten();
    let (handler, runner) = (
        handler.as_ref().map(Name::as_str),
        runner.as_ref().map(Name::as_str),
    );
    let mut place = match (after, filter.order) {
        (Some(Cursor(seq)), _) => i64::try_from(seq).unwrap_or(i64::MAX),
        (None, Order::Newest) => i64::MAX,
        (None, Order::Oldest) => 0,
    };
    let limit = i64::from(chunk);
    let batch = filter.batch.map(|batch| batch.0);
    let mut goes_on = true;
    loop {
        let found = rows(
            client,
            "list jobs",
            &sql,
            &[
                &place, &limit, &queue, &handler, &runner, &low, &high, &batch,
            ],
        )
        .await?;
        let mut jobs = Vec::with_capacity(found.len());
        for row in &found {
            let id = JobId(row.get(1));
            let job: Lifecycle = decode(row.get(2), || format!("job {id}"))?;
            jobs.push((row.get(0), Some(job).filter(|job| filter.has(job))));
        }
        let rest = Rest::of(client, filter, &jobs).await?;
        let full = jobs.len() as u64 == u64::from(chunk);
        for (seq, job) in jobs {
            if !goes_on || !budget.job() {
                return Ok(true);
            }
            place = seq;
            goes_on = see(
                seq,
                job.filter(|job| rest.matches(filter, &mut budget, job)),
            );
        }
        if !full {
            return Ok(false);
        }
    }
}

/// Returns whether a queue has jobs in a state. A search for none of them would pass all that have left the state since
/// the server last vacuumed: a million jobs that have run cost it half a second.
async fn has_some(client: &Client, queue: &str, state: State) -> Result<bool, StoreError> {
    let sql = "SELECT FROM host_counts WHERE queue = $1 AND state = $2 HAVING sum(jobs) > 0";
    let state = state as i16;
    let found = rows(client, "read the counts of a queue", sql, &[&queue, &state]).await?;
    Ok(!found.is_empty())
}

/// What is not in the lifecycles of jobs, as far as a filter needs it.
#[derive(Default)]
struct Rest {
    payloads: BTreeMap<JobId, (Payload, Option<String>)>,
    latest: BTreeMap<JobId, Attempt>,
}

impl Rest {
    /// Reads the rest of the jobs that may match.
    async fn of(
        client: &Client,
        filter: &JobFilter,
        jobs: &[(i64, Option<Lifecycle>)],
    ) -> Result<Self, StoreError> {
        let mut rest = Self::default();
        let candidates = || jobs.iter().filter_map(|(_, job)| job.as_ref());
        if filter.needs_payload() {
            let ids: Vec<Uuid> = candidates().map(|job| job.id.0).collect();
            let sql = "SELECT params, wire, unique_key, extra, job FROM host_payloads WHERE job = ANY($1)";
            for row in rows(client, "read jobs' params", sql, &[&ids]).await? {
                let id = JobId(row.get(4));
                let (payload, unique_key, _) = payload_of(&row, id)?;
                rest.payloads.insert(id, (payload, unique_key));
            }
        }
        let ids = candidates().filter(|job| filter.needs_attempt(job));
        let ids: Vec<JobId> = ids.map(|job| job.id).collect();
        if !ids.is_empty() {
            rest.latest = latest_attempts(client, &ids).await?;
        }
        Ok(rest)
    }

    /// Returns whether the rest of a job matches, of which this was read.
    fn matches(&self, filter: &JobFilter, budget: &mut Budget, job: &Lifecycle) -> bool {
        if filter.is_of_lifecycles() {
            return true;
        }
        let payload = self.payloads.get(&job.id);
        budget.rest(payload.map_or(0, |(payload, _)| payload.params.as_str().len()));
        // A job that was purged meanwhile has none.
        if filter.needs_payload() && payload.is_none() {
            return false;
        }
        let payload = payload.map(|(payload, key)| (payload, key.as_deref()));
        filter.has_rest(job, payload, self.latest.get(&job.id))
    }
}
