//! Lists and counts the jobs that match a filter. The database compares columns; encoded fields are compared
//! here, in chunks, so that a page examines a bounded number of jobs.

use std::collections::BTreeMap;

use host_core::id::JobId;
use host_core::job::{Lifecycle, PRIORITY_LAST, Payload, STATES, State};
use host_core::name::Name;
use host_core::outcome::Attempt;
use host_core::query::{Cursor, JobCount, JobFilter, Order, PAGE_ITEMS_MAX, Page};
use host_core::time::Time;
use host_engine::StoreError;
use uuid::Uuid;

use super::client::{Client, rows};
use super::rows::payload_of;
use crate::record::decode;
use crate::scan::{Budget, is_by_id};
use crate::start;

/// How many jobs are read at a time.
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
        chunk_of(filter)
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
    let stopped = examine(
        client,
        filter,
        after,
        chunk_of(filter),
        budget,
        |seq, job| {
            last = seq;
            if let Some(job) = job {
                count.add(&job);
            }
            true
        },
    )
    .await?;
    count.complete = !stopped;
    count.next = stopped.then_some(Cursor(last.unsigned_abs()));
    Ok(count)
}

/// Returns when the oldest available job of each queue was enqueued: of those for cells and for these executors.
pub(super) async fn oldest_available(
    client: &Client,
    queues: &[Name],
    executors: &[Name],
) -> Result<Vec<(Name, Time)>, StoreError> {
    // One job for each queue, priority and lane, each from the index for claims.
    let sql = "SELECT DISTINCT ON (asked) asked, first.id, first.body \
               FROM unnest($1::text[]) AS asked CROSS JOIN generate_series(0, $3) AS urgency \
               CROSS JOIN LATERAL (\
                 (SELECT seq, id, body FROM host_live WHERE state = 2 AND NOT suspect AND runner IS NULL \
                  AND queue = asked AND priority = urgency ORDER BY rank LIMIT 1) \
                 UNION ALL SELECT of_executor.* FROM unnest($2::text[]) AS pool CROSS JOIN LATERAL (\
                   SELECT seq, id, body FROM host_live WHERE state = 2 AND runner = pool \
                   AND queue = asked AND priority = urgency ORDER BY rank LIMIT 1) AS of_executor\
               ) AS first ORDER BY asked, first.seq";
    let names = |names: &[Name]| names.iter().map(Name::to_string).collect::<Vec<_>>();
    let (queues, executors) = (names(queues), names(executors));
    let last = i32::from(PRIORITY_LAST);
    let mut all = Vec::new();
    for row in rows(
        client,
        "find the oldest jobs",
        sql,
        &[&queues, &executors, &last],
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

/// Returns how many jobs are read at a time, if what is read of each decides whether it matches.
fn chunk_of(filter: &JobFilter) -> u32 {
    if filter.needs_payload() {
        CHUNK_WHOLE_JOBS_MAX
    } else {
        CHUNK_JOBS_MAX
    }
}

/// A query for the next jobs in the order of the filter, `$2` at most: each from the index that fits best, without a body if
/// another column does not match. So it examines a bounded number of jobs, however few match. States are no parameters, so
/// that the planner sees which index fits.
fn select(filter: &JobFilter) -> String {
    let (place, order) = match filter.order {
        Order::Newest => ("seq < $1", "DESC"),
        Order::Oldest => ("seq > $1", "ASC"),
    };
    let optional = [
        (filter.queue.is_some(), "queue = $3"),
        (
            filter.handler.is_some(),
            "handler = $4 AND runner IS NOT DISTINCT FROM $5",
        ),
        (filter.id.is_some(), "id BETWEEN $6 AND $7"),
        (filter.batch.is_some(), "batch = $8"),
    ];
    let set = optional
        .into_iter()
        .filter(|(is_set, _)| *is_set)
        .map(|(_, condition)| condition.to_owned());
    let conditions: Vec<String> = set.chain(filter.state.map(is_in)).collect();
    let body = if conditions.is_empty() {
        "body".to_owned()
    } else {
        format!("CASE WHEN {} THEN body END", conditions.join(" AND "))
    };
    let mut parts = Vec::new();
    for (table, has_ended) in [("host_live", false), ("host_ended", true)] {
        for index in indexes(filter, has_ended) {
            parts.push(format!(
                "(SELECT seq, id, {body} AS body FROM {table} WHERE {place} AND {index} \
                 ORDER BY seq {order} LIMIT $2)"
            ));
        }
    }
    // Values that no condition names need a type too.
    format!(
        "WITH given AS (SELECT $3::text, $4::text, $5::text, $6::uuid, $7::uuid, $8::uuid) \
         SELECT seq, id, body FROM ({}) AS found ORDER BY seq {order} LIMIT $2",
        parts.join(" UNION ALL ")
    )
}

fn is_in(state: State) -> String {
    format!("state = {}", state as i16)
}

/// Returns the conditions of a table that together cover the filter, each answered by an index in the order of jobs.
fn indexes(filter: &JobFilter, has_ended: bool) -> Vec<String> {
    let is_wanted = |state: &State| {
        state.is_terminal() == has_ended && filter.state.is_none_or(|wanted| wanted == *state)
    };
    let states = STATES.into_iter().filter(is_wanted);
    let each = |condition: &str| -> Vec<String> {
        let of_state = |state| format!("{condition} AND {}", is_in(state));
        states.clone().map(of_state).collect()
    };
    let is_for_cells = matches!(filter.handler, Some((None, _)));
    if states.clone().next().is_none() {
        Vec::new()
    } else if is_by_id(filter) {
        vec!["id BETWEEN $6 AND $7".to_owned()]
    } else if filter.batch.is_some() {
        vec!["batch = $8".to_owned()]
    } else if filter.queue.is_some() {
        each("queue = $3")
    } else if is_for_cells && !has_ended {
        each("handler = $4 AND runner IS NULL")
    } else if filter.handler.is_some() && has_ended {
        each("handler = $4")
    } else {
        // Available jobs have no index of their own.
        let state = filter.state.filter(|state| *state != State::Available);
        vec![state.map_or_else(|| "TRUE".to_owned(), is_in)]
    }
}

/// Calls `see` for each job that is examined, with the job if it matches, until `see` wants no more or the budget is spent.
/// Reads `chunk` jobs at first. Returns whether a job was left out.
async fn examine(
    client: &Client,
    filter: &JobFilter,
    after: Option<Cursor>,
    mut chunk: u32,
    mut budget: Budget,
    mut see: impl FnMut(i64, Option<Lifecycle>) -> bool,
) -> Result<bool, StoreError> {
    let (low, high) = match filter.id.as_deref().map(start::ids) {
        Some(None) => return Ok(false),
        Some(Some((low, high))) => (Some(low.0), Some(high.0)),
        None => (None, None),
    };
    let (sql, chunk_max) = (select(filter), chunk_of(filter));
    let queue = filter.queue.as_ref().map(Name::as_str);
    if let (Some(queue), Some(state)) = (queue, filter.state)
        && !has_some(client, queue, state).await?
    {
        return Ok(false);
    }
    let (executor, handler) = filter.handler.clone().unzip();
    let executor = executor.flatten();
    let (handler, executor) = (
        handler.as_ref().map(Name::as_str),
        executor.as_ref().map(Name::as_str),
    );
    let mut place = match (after, filter.order) {
        (Some(Cursor(seq)), _) => i64::try_from(seq).unwrap_or(i64::MAX),
        (None, Order::Newest) => i64::MAX,
        (None, Order::Oldest) => 0,
    };
    let batch = filter.batch.map(|batch| batch.0);
    let mut goes_on = true;
    loop {
        let limit = i64::from(chunk);
        let found = rows(
            client,
            "list jobs",
            &sql,
            &[
                &place, &limit, &queue, &handler, &executor, &low, &high, &batch,
            ],
        )
        .await?;
        let mut jobs = Vec::with_capacity(found.len());
        for row in &found {
            let id = JobId(row.get(1));
            let body: Option<&[u8]> = row.get(2);
            let decoded = body.map(|body| decode::<Lifecycle>(body, || format!("job {id}")));
            let job = decoded.transpose()?.filter(|decoded| filter.has(decoded));
            jobs.push((row.get(0), job));
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
        chunk = chunk.max(chunk_max.min(chunk * 2));
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
        let ids: Vec<JobId> = candidates()
            .filter(|job| filter.needs_attempt(job))
            .map(|job| job.id)
            .collect();
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
        // A job that was purged in the meantime has none.
        if filter.needs_payload() && payload.is_none() {
            return false;
        }
        let payload = payload.map(|(payload, key)| (payload, key.as_deref()));
        filter.has_rest(job, payload, self.latest.get(&job.id))
    }
}
