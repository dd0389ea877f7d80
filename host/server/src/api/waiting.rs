//! Why a job has not started: its queue is paused, no node can run it now, or it waits for other jobs or for
//! a limit.

use std::fmt::Write as _;

use host_core::id::JobId;
use host_core::job::{Lifecycle, LimitKey, State};
use host_core::lease::Lease;
use host_core::name::Name;
use host_core::prerequisite::{Verdict, When};
use host_engine::StoreError;
use host_engine::limit::tables::{read_key_use, read_limits};
use host_engine::node::{NodeRecord, Readiness, Standing, last_node_with};

use super::Shared;
use super::error::ApiError;
use crate::executors::explain_unavailable;

/// How many nodes a reason names.
const NODES_SHOWN: usize = 3;

/// Why a job has not started.
pub(super) struct Reason {
    pub(super) text: String,
    /// Whether it leaves out a key of a limit, which is part of the params.
    pub(super) withholds_key: bool,
}

/// Returns why a job does not start; `None` if a node can run it as soon as it is due and the node has room. Without
/// `sees_payload`, the reason leaves out what is part of the job's params.
pub(super) async fn reason(
    shared: &Shared,
    job: &Lifecycle,
    depends_on: &[JobId],
    sees_payload: bool,
) -> Result<Option<Reason>, ApiError> {
    if let Some(key) = job.waits_for_key() {
        return limit(shared, key, sees_payload).await.map(Some);
    }
    let text = other_reason(shared, job, depends_on).await?;
    Ok(text.map(|text| Reason {
        text,
        withholds_key: false,
    }))
}

/// Returns why a job does not start that waits for no limit.
async fn other_reason(
    shared: &Shared,
    job: &Lifecycle,
    depends_on: &[JobId],
) -> Result<Option<String>, ApiError> {
    let api = &shared.api;
    if job.state == State::Pending {
        return prerequisites(shared, job, depends_on).await;
    }
    let presence = &api.dispatch.shared().presence;
    let is_here = match &job.executor {
        Some(runner) => api.executors.has(runner),
        None => presence.can_run(&job.handler),
    };
    let is_unacknowledged = |lease: &Lease| lease.ack_by.is_some();
    if let (Some(runner), true) = (
        &job.executor,
        job.lease.as_ref().is_some_and(is_unacknowledged),
    ) {
        return Ok(Some(format!("no worker of {runner} has started it yet")));
    }
    if job.state != State::Available {
        return Ok(None);
    }
    let queue = job.queue.clone();
    let is_paused = api.dispatch.read(move |reader| reader.is_paused(&queue));
    if is_paused.await? {
        let queue = &job.queue;
        return Ok(Some(format!(
            "its queue is paused until `host queue resume {queue}`"
        )));
    }
    if is_here && !presence.is_drain_requested() {
        let runner = job.executor.as_ref();
        return Ok(runner.and_then(|runner| api.executors.waits_because(runner)));
    }
    let (gone, nodes): (Vec<NodeRecord>, Vec<NodeRecord>) = api
        .nodes
        .list()
        .await?
        .into_iter()
        .partition(NodeRecord::is_lost);
    if let Some(runner) = &job.executor {
        let has = |node: &NodeRecord| {
            let info = node.info.as_ref();
            info.is_some_and(|info| info.has_executor(runner))
        };
        return Ok(match Candidates::among(&nodes, has) {
            Candidates::None => {
                let last = last_node_with(&gone, runner).map(NodeRecord::called);
                Some(explain_unavailable(runner.as_str(), last.as_deref()))
            }
            able => able.reason(),
        });
    }
    // One that is not deployed fails soon.
    let Some(handler) = api.handlers.get(&job.handler) else {
        return Ok(None);
    };
    let (component, revision) = (&handler.revision.component, handler.revision.revision);
    let is_ready = |node: &NodeRecord| node.readiness(component, revision) == Readiness::Ready;
    Ok(match Candidates::among(&nodes, is_ready) {
        Candidates::None => Some(missing(component, revision, &nodes)),
        able => able.reason(),
    })
}

/// Returns which limit a job waits for, and what that allows.
async fn limit(shared: &Shared, key: &LimitKey, sees_payload: bool) -> Result<Reason, ApiError> {
    let wanted = key.clone();
    let read =
        shared.read(move |reader| Ok((read_limits(reader)?, read_key_use(reader, &wanted)?)));
    let (limits, used) = read.await?;
    let Some(limit) = limits.get(key.limit) else {
        return Ok(Reason {
            text: "the limit that it waited for was removed: it starts soon".to_owned(),
            withholds_key: false,
        });
    };
    if used.is_held(shared.api.clock.now()) {
        return Ok(Reason {
            text: format!(
                "a handler holds its key of the limit {} until {}",
                limit.name,
                used.held_until.to_rfc3339()
            ),
            withholds_key: false,
        });
    }
    let concurrency = limit.concurrency.map(|jobs| format!("{jobs} at a time"));
    let in_time = limit
        .rate
        .as_ref()
        .map(|rate| format!("{} in {} s", rate.count, rate.per_seconds));
    let allowed: Vec<String> = concurrency.into_iter().chain(in_time).collect();
    let of_key = match &*key.key {
        "" => String::new(),
        shown if sees_payload => format!(" of {shown}"),
        _ => " of its key".to_owned(),
    };
    Ok(Reason {
        text: format!(
            "the limit {} is full: it lets jobs{of_key} run {}",
            limit.name,
            allowed.join(" and ")
        ),
        withholds_key: !key.key.is_empty() && !sees_payload,
    })
}

/// Returns which job a pending one waits for: first of all, one that has ended otherwise than it must.
async fn prerequisites(
    shared: &Shared,
    job: &Lifecycle,
    depends_on: &[JobId],
) -> Result<Option<String>, ApiError> {
    let ids = depends_on.to_vec();
    let states = shared
        .read(move |reader| {
            let states = ids.into_iter().map(|id| Ok((id, reader.state(id)?)));
            states.collect::<Result<Vec<_>, StoreError>>()
        })
        .await?
        .into_iter();
    let open = states.filter_map(|(id, state)| Some((id, state?)));
    let is_open = |(id, state): &(JobId, State)| {
        !state.is_terminal() || job.judge(*id, *state) != Verdict::Met
    };
    let open: Vec<_> = open.filter(is_open).collect();
    let ended = open.iter().find(|(_, state)| state.is_terminal());
    if let Some((id, state)) = ended {
        let (state, job) = (state.as_str(), job.id);
        return Ok(Some(format!(
            "it depends on job {id}, which is {state}: `host job retry {id}` runs that job again, \
             `host job retry {job} --force` runs this one without it"
        )));
    }
    Ok(open.first().map(|(id, state)| {
        let must = match job.when(*id).next().unwrap_or_default() {
            When::Completed => "",
            When::Ended => " and has to end",
            When::Failed => " and has to fail",
        };
        let (state, others) = (state.as_str(), open.len() - 1);
        let others = match others {
            0 => String::new(),
            1 => ", and on 1 other".to_owned(),
            others => format!(", and on {others} others"),
        };
        format!("it depends on job {id}, which is {state}{must}{others}")
    }))
}

/// The nodes that can run a job.
enum Candidates<'a> {
    None,
    /// These can, and start no jobs.
    Stopped(Vec<&'a NodeRecord>),
    /// One can, and starts it.
    Starts,
}

impl<'a> Candidates<'a> {
    fn among(nodes: &'a [NodeRecord], can: impl Fn(&NodeRecord) -> bool) -> Self {
        let able: Vec<&NodeRecord> = nodes.iter().filter(|node| can(node)).collect();
        let starts =
            |node: &&NodeRecord| matches!(node.standing(), Standing::Live | Standing::Silent);
        if able.is_empty() {
            Self::None
        } else if able.iter().any(starts) {
            Self::Starts
        } else {
            Self::Stopped(able)
        }
    }

    fn reason(self) -> Option<String> {
        let Self::Stopped(nodes) = self else {
            return None;
        };
        let nodes = listed(&nodes, |_| None);
        Some(format!(
            "the nodes that can run it start no more jobs until `host node resume`: {nodes}"
        ))
    }
}

/// Explains why none of these nodes can run a revision of a component.
fn missing(component: &Name, revision: u32, nodes: &[NodeRecord]) -> String {
    let all: Vec<&NodeRecord> = nodes.iter().collect();
    let reasons = listed(&all, |node| match node.readiness(component, revision) {
        Readiness::Failed(reason) => Some(reason),
        Readiness::Compiling => Some("not compiled yet"),
        Readiness::Ready => None,
    });
    format!("no node can run revision {revision} of the component {component}: {reasons}")
}

/// Names the first nodes, each with its reason.
fn listed<'a>(nodes: &[&'a NodeRecord], of: impl Fn(&'a NodeRecord) -> Option<&'a str>) -> String {
    let mut text = String::new();
    for (n, node) in nodes.iter().take(NODES_SHOWN).enumerate() {
        let between = if n == 0 { "" } else { "; " };
        let _ = write!(text, "{between}{}", node.called());
        if let Some(reason) = of(node) {
            let _ = write!(text, ": {reason}");
        }
    }
    let more = nodes.len().saturating_sub(NODES_SHOWN);
    if more > 0 {
        let _ = write!(text, "; and {more} more");
    }
    text
}
