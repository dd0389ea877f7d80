//! Finds the jobs that workers have lost, and queues them again: for one request, and for the workers that
//! the configuration names.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use host_core::port::Clock;
use host_core::time::Time;
use tokio_util::sync::CancellationToken;

use super::live::{Client, ClientError};
use super::{JobView, STALE_AFTER_MS, SUMMARY, is_stale, may_be_lost, requeue, requeue_by_itself};
use crate::messages::{self, Value};
use crate::refusals::Refusal;

/// How long a job must be in no list to count as lost for a request. A worker that takes jobs needs
/// far less until it writes that it has started one.
const RECHECK_AFTER: Duration = Duration::from_secs(2);

/// How often the configured workers are checked.
const CHECK_EVERY: Duration = Duration::from_secs(5);

/// How many jobs one check aims to find.
const CHECK_JOBS: usize = 500;

/// How many jobs that may be lost are remembered.
const MISSING_MAX: usize = 10_000;

/// Whose lost jobs are wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Workers {
    /// All of them.
    pub(crate) all: bool,
    /// These.
    pub(crate) ids: BTreeSet<String>,
}

impl Workers {
    pub(crate) fn is_empty(&self) -> bool {
        !self.all && self.ids.is_empty()
    }

    fn has(&self, job: &JobView) -> bool {
        let worker = job.get("worker_id").unwrap_or_default();
        !worker.is_empty() && (self.all || self.ids.contains(worker))
    }
}

/// A part of the lost jobs.
struct LostJobs {
    /// Started, and past their time limits.
    stale: Vec<JobView>,
    /// Neither started nor in a list.
    missing: Vec<JobView>,
    next: Option<u64>,
}

impl Client {
    /// Queues part of a worker's lost jobs again. Returns their ids and the cursor of the next part.
    pub(crate) async fn requeue_lost(
        &self,
        worker_id: &str,
        after: Option<u64>,
        clock: &dyn Clock,
    ) -> Result<(Vec<String>, Option<u64>), ClientError> {
        let workers = Workers {
            all: false,
            ids: [worker_id.to_owned()].into(),
        };
        let found = self.find_lost(&workers, after, clock.wall()).await?;
        let mut lost = found.stale;
        if !found.missing.is_empty() {
            tokio::time::sleep(RECHECK_AFTER).await;
            lost.extend(self.still_missing(found.missing).await?);
        }
        let mut requeued = Vec::new();
        for job in lost {
            match self.queue_lost(&job, false, clock.wall()).await {
                Ok(true) => requeued.push(job.id),
                // It has ended by now, or a host executes it.
                Ok(false) | Err(ClientError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok((requeued, found.next))
    }

    async fn find_lost(
        &self,
        workers: &Workers,
        after: Option<u64>,
        wall: Time,
    ) -> Result<LostJobs, ClientError> {
        let fits =
            |job: &JobView| workers.has(job) && (is_stale(job, wall) || may_be_lost(job, wall));
        let page = self.list(fits, after, CHECK_JOBS).await?;
        let (stale, waiting) = page.jobs.into_iter().partition(|job| is_stale(job, wall));
        Ok(LostJobs {
            stale,
            missing: self.missing(waiting).await?,
            next: page.next,
        })
    }

    /// Returns those jobs that are in no list of their workers.
    async fn missing(&self, jobs: Vec<JobView>) -> Result<Vec<JobView>, ClientError> {
        let mut of_workers: BTreeMap<String, Vec<JobView>> = BTreeMap::new();
        for job in jobs {
            let worker = job.get("worker_id").unwrap_or_default().to_owned();
            of_workers.entry(worker).or_default().push(job);
        }
        let mut missing = Vec::new();
        for (worker, jobs) in of_workers {
            let ids: Vec<String> = jobs.iter().map(|job| job.id.clone()).collect();
            let absent = self.ask_one(messages::absent(&worker, &ids)).await?;
            let Value::List(places) = absent else {
                return Err(Refusal::odd_reply("the read of a worker's lists").into());
            };
            let places: BTreeSet<usize> = places
                .iter()
                .filter_map(|place| match place {
                    Value::Int(place) => usize::try_from(*place).ok(),
                    _ => None,
                })
                .collect();
            let jobs = jobs.into_iter().enumerate();
            missing.extend(jobs.filter_map(|(place, job)| places.contains(&place).then_some(job)));
        }
        Ok(missing)
    }

    /// Returns those jobs in which nothing has changed and that are still in no list.
    async fn still_missing(&self, jobs: Vec<JobView>) -> Result<Vec<JobView>, ClientError> {
        let ids = jobs.iter().map(|job| job.id.as_str());
        let now = self.many(ids, SUMMARY).await?;
        let same = |(before, now): (JobView, Option<JobView>)| {
            let fields = ["status", "updated_at"];
            let is_same =
                |now: &JobView| fields.map(|it| now.get(it)) == fields.map(|it| before.get(it));
            now.filter(is_same)
        };
        let jobs = jobs.into_iter().zip(now).filter_map(same);
        self.missing(jobs.collect()).await
    }

    /// Queues a lost job again; `by_itself` up to a number of times. Returns whether it is queued.
    async fn queue_lost(
        &self,
        job: &JobView,
        by_itself: bool,
        wall: Time,
    ) -> Result<bool, ClientError> {
        let command = if by_itself {
            requeue_by_itself(job, wall)?
        } else {
            requeue(job, false, wall)?
        };
        let answer = self.ask_one(command).await?;
        Ok(matches!(answer.text(), Some("queued" | "waits")))
    }
}

/// Queues the lost jobs of these workers again, until `stopping`.
pub(crate) async fn watch_lost(
    client: Client,
    workers: Workers,
    clock: Arc<dyn Clock>,
    stopping: CancellationToken,
) {
    let mut watch = Watch {
        client,
        workers,
        clock,
        cursor: None,
        missing: BTreeMap::new(),
    };
    let mut is_away = false;
    let mut check = async || {
        tokio::time::sleep(CHECK_EVERY).await;
        match watch.check().await {
            Ok(ids) => {
                is_away = false;
                for id in ids {
                    tracing::warn!(id, "queued a Hero job again that its worker had lost");
                }
            }
            Err(error) => {
                if !std::mem::replace(&mut is_away, true) {
                    let why = error.to_string();
                    tracing::warn!(why, "cannot look for lost Hero jobs; retrying");
                }
            }
        }
    };
    while stopping.run_until_cancelled(check()).await.is_some() {}
}

struct Watch {
    client: Client,
    workers: Workers,
    clock: Arc<dyn Clock>,
    cursor: Option<u64>,
    /// Jobs that are in no list, and since when.
    missing: BTreeMap<String, (JobView, Time)>,
}

impl Watch {
    /// Checks the next part of the jobs, and those that were missing before. Returns the ids of those
    /// that are queued again.
    async fn check(&mut self) -> Result<Vec<String>, ClientError> {
        let (now, wall) = (self.clock.now(), self.clock.wall());
        let before = std::mem::take(&mut self.missing);
        let known = before.values().map(|(job, _)| job.clone()).collect();
        let still = self.client.still_missing(known).await?;
        let found = self
            .client
            .find_lost(&self.workers, self.cursor, wall)
            .await?;
        self.cursor = found.next;
        let mut lost = found.stale;
        for job in still.into_iter().chain(found.missing) {
            let since = before.get(&job.id).map_or(now, |(_, since)| *since);
            if now.since_ms(since) >= STALE_AFTER_MS {
                lost.push(job);
            } else if self.missing.len() < MISSING_MAX {
                self.missing.entry(job.id.clone()).or_insert((job, since));
            }
        }
        let mut requeued = BTreeSet::new();
        for job in lost {
            match self.client.queue_lost(&job, true, wall).await {
                Ok(true) => drop(requeued.insert(job.id)),
                Ok(false) | Err(ClientError::Refused(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(requeued.into_iter().collect())
    }
}
