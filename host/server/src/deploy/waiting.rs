//! Whether waiting jobs fit the schemas of a new revision. Their params were checked when they were enqueued, against
//! the schema of that time; one that does not fit when it starts is discarded.

use std::fmt;

use host_cells::compile::schema::{Budget, Schema};
use host_core::handler::HandlerInfo;
use host_core::id::JobId;
use host_core::job::{Lifecycle, State};
use host_core::name::Name;
use host_core::query::{JobFilter, Order};
use host_engine::{Reader, StoreError};

/// The states of jobs whose next attempt gets the new revision.
const WAITING: [State; 4] = [
    State::Available,
    State::Retryable,
    State::Scheduled,
    State::Pending,
];

/// How many jobs of a handler are checked: the oldest in each state.
const CHECKED_MAX: u32 = 1_000;

/// The most bytes of params of a handler's jobs that are read, before the last of them.
const PARAMS_BYTES_MAX: usize = 16 << 20;

/// How many jobs of a handler are counted.
const COUNTED_MAX: u64 = 100_000;

/// Waiting jobs of a handler that do not fit its new schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unfit {
    handler: Name,
    /// How many of those that were checked.
    jobs: u64,
    checked: u64,
    /// How many wait, and whether there may be more.
    waiting: u64,
    is_more: bool,
    /// One of them, and what is wrong with its params.
    example: (JobId, String),
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            handler,
            jobs,
            checked,
            waiting,
            ..
        } = self;
        let (job, wrong) = &self.example;
        write!(f, "{handler}: {jobs} of ")?;
        if checked < waiting {
            let least = if self.is_more { "at least " } else { "" };
            write!(f, "the first {checked} of {least}")?;
        }
        write!(f, "{waiting} waiting jobs, such as {job} ({wrong})")
    }
}

/// Returns whether a job may still get a part of its params.
fn lacks_inputs(job: &Lifecycle) -> bool {
    job.waits_for_jobs() && job.inputs().next().is_some()
}

/// Checks waiting jobs of the handler against its schema. `None` if it has none, or if those that were checked fit.
pub(super) fn unfit(
    reader: &dyn Reader,
    handler: &HandlerInfo,
) -> Result<Option<Unfit>, StoreError> {
    let schema = handler.params_schema.as_ref();
    // The deploy has checked that it compiles.
    let Some(Ok(schema)) = schema.map(Schema::compile) else {
        return Ok(None);
    };
    let (mut budget, mut bytes) = (Budget::default(), 0);
    let (mut jobs, mut checked, mut example) = (0, 0, None);
    'states: for state in WAITING {
        for id in reader
            .matching(&filter_for(handler, state), None, CHECKED_MAX)?
            .items
        {
            if checked == u64::from(CHECKED_MAX) || bytes > PARAMS_BYTES_MAX {
                break 'states;
            }
            let Some(job) = reader
                .job(id)?
                .filter(|job| !job.lifecycle.state.is_terminal() && !lacks_inputs(&job.lifecycle))
            else {
                continue;
            };
            let params = &job.payload.params;
            bytes += params.as_str().len();
            let fits = schema.check_text(params, &mut budget);
            if budget.is_spent() {
                break 'states;
            }
            checked += 1;
            if let Err(wrong) = fits {
                jobs += 1;
                example.get_or_insert((id, wrong));
            }
        }
    }
    let Some(example) = example else {
        return Ok(None);
    };
    let (mut waiting, mut is_more) = (0, false);
    for state in WAITING {
        let count = reader.count(&filter_for(handler, state), None, COUNTED_MAX)?;
        waiting += count.jobs;
        is_more |= !count.complete;
    }
    Ok(Some(Unfit {
        handler: handler.name.clone(),
        jobs,
        checked,
        waiting: waiting.max(checked),
        is_more,
        example,
    }))
}

fn filter_for(handler: &HandlerInfo, state: State) -> JobFilter {
    JobFilter {
        state: Some(state),
        handler: Some((None, handler.name.clone())),
        order: Order::Oldest,
        ..JobFilter::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "01990f3c-1a2b-7000-8000-000000000001";

    #[test]
    fn the_detail_says_how_many_were_checked() {
        let unfit = |checked, waiting, is_more| Unfit {
            handler: "sum".parse().unwrap(),
            jobs: 2,
            checked,
            waiting,
            is_more,
            example: (ID.parse().unwrap(), "params: it is wrong".to_owned()),
        };
        let example = format!("waiting jobs, such as {ID} (params: it is wrong)");
        for (unfit, count) in [
            (unfit(3, 3, false), "2 of 3"),
            (unfit(1_000, 4_000, false), "2 of the first 1000 of 4000"),
            (
                unfit(1_000, 100_000, true),
                "2 of the first 1000 of at least 100000",
            ),
        ] {
            assert_eq!(unfit.to_string(), format!("sum: {count} {example}"));
        }
    }
}
