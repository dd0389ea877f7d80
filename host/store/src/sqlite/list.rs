//! Lists and counts the jobs that match a filter. The narrowest filter decides which index is read; the
//! others are checked row by row, columns first and encoded fields last.

use host_core::job::{Lifecycle, State};
use host_core::name::Name;
use host_core::outcome::Attempt;
use host_core::query::{Cursor, JobCount, JobFilter, Order, PAGE_ITEMS_MAX, Page};
use host_engine::StoreError;
use rusqlite::{Connection, OptionalExtension, Params, params};

use super::moment::Moment;
use super::{doing, payloads};
use crate::record::decode;
use crate::scan::{Budget, is_by_id};
use crate::start;

/// From how many jobs of a state and a queue on the index of handlers is narrower.
const MANY_JOBS: u64 = 20_000;

/// An index and its key.
struct Source {
    /// The queue that the filter names.
    queue: Option<i64>,
    /// The condition that an index answers.
    index: &'static str,
}

/// Returns the places and jobs of one page.
pub(super) fn page(
    moment: &Moment<'_>,
    filter: &JobFilter,
    after: Option<Cursor>,
    limit: u32,
) -> Result<Page<(i64, Lifecycle)>, StoreError> {
    let limit = limit.min(PAGE_ITEMS_MAX) as usize;
    let (mut items, mut last) = (Vec::new(), None);
    let budget = Budget::of_page();
    let stopped = examine(moment, filter, after, budget, |seq, job| {
        items.extend(job.map(|job| (seq, job)));
        last = Some(seq);
        items.len() < limit
    })?;
    let last = last.filter(|_| stopped).map(i64::unsigned_abs);
    Ok(Page {
        items,
        next: last.map(Cursor),
    })
}

/// Counts the jobs that match, among the first after a place: `examined_max`, or fewer if more than lifecycles must be
/// read.
pub(super) fn count(
    moment: &Moment<'_>,
    filter: &JobFilter,
    after: Option<Cursor>,
    examined_max: u64,
) -> Result<JobCount, StoreError> {
    let (mut count, mut last) = (JobCount::default(), 0_i64);
    let budget = Budget::of_count(examined_max);
    let stopped = examine(moment, filter, after, budget, |seq, job| {
        last = seq;
        if let Some(job) = job {
            count.add(&job);
        }
        true
    })?;
    count.complete = !stopped;
    count.next = stopped.then_some(Cursor(last.unsigned_abs()));
    Ok(count)
}

/// Calls `see` for each job of the narrowest index, with the job if it matches, until `see` wants no more or the budget
/// is spent. Returns whether a job was left out.
fn examine(
    moment: &Moment<'_>,
    filter: &JobFilter,
    after: Option<Cursor>,
    mut budget: Budget,
    mut see: impl FnMut(i64, Option<Lifecycle>) -> bool,
) -> Result<bool, StoreError> {
    let list = doing("list jobs");
    let ids = match filter.id.as_deref().map(start::ids) {
        Some(None) => return Ok(false),
        Some(Some(ids)) => Some(ids),
        None => None,
    };
    let Some(Source { queue, index }) = narrowest(moment, filter).map_err(&list)? else {
        return Ok(false);
    };
    let (from, order) = match filter.order {
        Order::Newest => ("seq < ?1", "DESC"),
        Order::Oldest => ("seq > ?1", "ASC"),
    };
    let sql = format!(
        "SELECT seq, (?2 IS NULL OR state = ?2) AND (?3 IS NULL OR queue = ?3) \
         AND (?4 IS NULL OR handler = ?4 AND runner IS ?5) \
         AND (?6 IS NULL OR id BETWEEN ?6 AND ?7) AND (?8 IS NULL OR batch = ?8), body \
         FROM jobs {index} AND {from} ORDER BY seq {order}"
    );
    let start = match (after, filter.order) {
        (Some(Cursor(seq)), _) => i64::try_from(seq).unwrap_or(i64::MAX),
        (None, Order::Newest) => i64::MAX,
        (None, Order::Oldest) => 0,
    };
    let mut statement = moment.prepare_cached(&sql).map_err(&list)?;
    let (executor, handler) = filter.handler.clone().unzip();
    let (low, high) = ids.unzip();
    let mut rows = statement
        .query(params![
            start,
            filter.state.map(|state| state as u8),
            queue,
            handler.as_ref().map(Name::as_str),
            executor.flatten().as_ref().map(Name::as_str),
            low.map(|id| id.0.into_bytes()),
            high.map(|id| id.0.into_bytes()),
            filter.batch.map(|batch| batch.0.into_bytes()),
        ])
        .map_err(&list)?;
    let mut goes_on = true;
    while let Some(row) = rows.next().map_err(&list)? {
        if !goes_on || !budget.job() {
            return Ok(true);
        }
        let seq: i64 = row.get(0).map_err(&list)?;
        let mut job = None;
        if row.get(1).map_err(&list)? {
            let body = row
                .get_ref(2)
                .and_then(|body| Ok(body.as_blob()?))
                .map_err(&list)?;
            let read: Lifecycle = decode(body, || format!("job {seq}"))?;
            if filter.has(&read) && has_rest(moment, filter, &mut budget, (seq, &read))? {
                job = Some(read);
            }
        }
        goes_on = see(seq, job);
    }
    Ok(false)
}

/// Returns whether what is not in a job's lifecycle matches.
fn has_rest(
    connection: &Connection,
    filter: &JobFilter,
    budget: &mut Budget,
    (seq, job): (i64, &Lifecycle),
) -> Result<bool, StoreError> {
    if filter.is_of_lifecycles() {
        return Ok(true);
    }
    let read = filter
        .needs_payload()
        .then(|| payloads::of(connection, seq))
        .transpose()?;
    let payload = read.as_ref();
    budget.rest(payload.map_or(0, |(payload, ..)| payload.params.as_str().len()));
    let latest = if filter.needs_attempt(job) {
        latest_attempt(connection, seq)?
    } else {
        None
    };
    let payload = payload.map(|(payload, unique_key, _)| (payload, unique_key.as_deref()));
    Ok(filter.has_rest(job, payload, latest.as_ref()))
}

/// Returns the latest ended attempt of a job.
pub(super) fn latest_attempt(
    connection: &Connection,
    seq: i64,
) -> Result<Option<Attempt>, StoreError> {
    let sql = "SELECT body FROM attempts WHERE seq = ?1 ORDER BY number DESC LIMIT 1";
    Ok(attempts(connection, sql, [seq])?.pop())
}

/// Returns the attempts that a query finds.
pub(super) fn attempts(
    connection: &Connection,
    sql: &str,
    params: impl Params,
) -> Result<Vec<Attempt>, StoreError> {
    let read = || {
        let mut statement = connection.prepare_cached(sql)?;
        let rows = statement.query_map(params, |row| row.get(0))?;
        rows.collect::<Result<Vec<Vec<u8>>, _>>()
    };
    read()
        .map_err(doing("read a job's attempts"))?
        .iter()
        .map(|body| decode(body, || "an attempt".to_owned()))
        .collect()
}

/// Chooses the index with the fewest jobs to examine. `None` if the counters show that no job matches.
fn narrowest(connection: &Connection, filter: &JobFilter) -> rusqlite::Result<Option<Source>> {
    let queue: Option<i64> = match &filter.queue {
        None => None,
        Some(name) => {
            let mut find = connection.prepare_cached("SELECT id FROM queues WHERE name = ?1")?;
            let found = find.query_row([name.as_str()], |row| row.get(0));
            match found.optional()? {
                Some(id) => Some(id),
                None => return Ok(None),
            }
        }
    };
    // Queue 0 counts no jobs.
    let mut count = connection.prepare_cached(
        "SELECT COALESCE(SUM(jobs), 0) FROM counters WHERE queue > 0 \
         AND (?1 IS NULL OR queue = ?1) AND (?2 IS NULL OR state = ?2)",
    )?;
    let mut jobs = |queue: Option<i64>, state: Option<State>| {
        let state = state.map(|state| state as u8);
        count.query_row(params![queue, state], |row| row.get::<_, u64>(0))
    };
    if jobs(queue, filter.state)? == 0 {
        return Ok(None);
    }
    let by_state = match filter.state {
        Some(_) => jobs(None, filter.state)?,
        None => u64::MAX,
    };
    let by_queue = match queue {
        Some(_) => jobs(queue, None)?,
        None => u64::MAX,
    };
    // Jobs are not counted by handler.
    let index = if is_by_id(filter) {
        "WHERE seq IN (SELECT seq FROM jobs WHERE id BETWEEN ?6 AND ?7)"
    } else if filter.batch.is_some() {
        "WHERE batch = ?8"
    } else if filter.handler.is_some() && by_state.min(by_queue) > MANY_JOBS {
        "WHERE handler = ?4"
    } else if by_state < by_queue {
        "WHERE state = ?2"
    } else if queue.is_some() {
        "WHERE queue = ?3"
    } else {
        "WHERE TRUE"
    };
    Ok(Some(Source { queue, index }))
}
