//! The operations of the API that have a client, in the order of their paths.

use std::io::Read;
use std::time::Duration;

use host_core::seconds::Seconds;
use serde::Serialize;

use super::{Answer, Client, Error, Listing, Page, with_query};
use crate::artifact::UploadView;
use crate::attempt::AttemptView;
use crate::audit::{AuditQuery, EntryView};
use crate::batch::{BatchView, CancelBatchBody, MadeBatchView, NewBatchBody};
use crate::cause::{CausesQuery, CausesView};
use crate::change::{
    CancelBody, CancelView, CountView, ManyView, PriorityBody, RescheduleBody, RetryBody,
};
use crate::component::{
    ComponentView, DeployForm, DeployQuery, DeployedView, RemovedView, RevisionView, RollbackBody,
};
use crate::filter::{FilterQuery, PageQuery};
use crate::handler::HandlerView;
use crate::health::Health;
use crate::job::JobView;
use crate::limit::{LimitBody, LimitQuery, LimitView, RemovedLimitView};
use crate::log::LineView;
use crate::multipart::Multipart;
use crate::new_job::{AcceptedView, NewJobBody};
use crate::node::{AskedView, NodeView};
use crate::path;
use crate::queue::{PauseBody, QueueView, RemovedQueueView};
use crate::runner::{NodeQuery, PoolView, RestartBody};
use crate::schedule::{
    BackfillBody, ComingQuery, ComingView, FiringView, RemovedScheduleView, ScheduleBody,
    ScheduleView, TriggeredView,
};
use crate::state::{
    RemoveStateQuery, RemovedStateView, SetStateBody, StateKeyQuery, StateKeyView, StateQuery,
    StateSpaceView, StateValueView,
};
use crate::token::{MintedView, NewTokenBody, RevokedView, RotateBody, SelfView, TokenView};
use crate::webhook::TestWebhookBody;

/// How long a host may take to compile a component, including those that it compiles first.
const COMPILE_PATIENCE: Duration = Duration::from_mins(10);

/// A body without fields.
#[derive(Serialize)]
struct Empty {}

impl Client {
    pub fn health(&self) -> Result<Answer<Health>, Error> {
        self.get(path::HEALTH)
    }

    pub fn enqueue(&self, job: &NewJobBody) -> Result<Answer<AcceptedView>, Error> {
        self.post(path::JOBS, job)
    }

    pub fn jobs(&self, filter: &FilterQuery) -> Result<Page<JobView>, Error> {
        self.get(&with_query(path::JOBS, filter)?)
    }

    pub fn causes(&self, query: &CausesQuery) -> Result<Answer<CausesView>, Error> {
        self.get(&with_query(path::FAILURES, query)?)
    }

    pub fn count_jobs(&self, filter: &FilterQuery) -> Result<Answer<CountView>, Error> {
        self.get(&with_query(path::JOBS_COUNT, filter)?)
    }

    pub fn retry_jobs(
        &self,
        filter: &FilterQuery,
        body: &RetryBody,
    ) -> Result<Answer<ManyView>, Error> {
        self.post(&with_query(path::JOBS_RETRY, filter)?, body)
    }

    pub fn cancel_jobs(
        &self,
        filter: &FilterQuery,
        body: &CancelBody,
    ) -> Result<Answer<ManyView>, Error> {
        self.post(&with_query(path::JOBS_CANCEL, filter)?, body)
    }

    pub fn purge_jobs(&self, filter: &FilterQuery) -> Result<Answer<ManyView>, Error> {
        self.post(&with_query(path::JOBS_PURGE, filter)?, &Empty {})
    }

    pub fn set_priority_of_jobs(
        &self,
        filter: &FilterQuery,
        body: &PriorityBody,
    ) -> Result<Answer<ManyView>, Error> {
        self.post(&with_query(path::JOBS_PRIORITY, filter)?, body)
    }

    pub fn job(&self, id: &str) -> Result<Answer<JobView>, Error> {
        self.get(&path::with_name(path::JOB, id))
    }

    pub fn cancel_job(&self, id: &str, body: &CancelBody) -> Result<Answer<CancelView>, Error> {
        self.post(&path::with_name(path::JOB_CANCEL, id), body)
    }

    pub fn retry_job(&self, id: &str, body: &RetryBody) -> Result<Answer<JobView>, Error> {
        self.post(&path::with_name(path::JOB_RETRY, id), body)
    }

    pub fn set_priority(&self, id: &str, body: &PriorityBody) -> Result<Answer<JobView>, Error> {
        self.post(&path::with_name(path::JOB_PRIORITY, id), body)
    }

    pub fn reschedule_job(
        &self,
        id: &str,
        body: &RescheduleBody,
    ) -> Result<Answer<JobView>, Error> {
        self.post(&path::with_name(path::JOB_RESCHEDULE, id), body)
    }

    pub fn purge_job(&self, id: &str) -> Result<Answer<JobView>, Error> {
        self.post(&path::with_name(path::JOB_PURGE, id), &Empty {})
    }

    /// Waits until a job ends, at most for `timeout`.
    pub fn wait_for_job(&self, id: &str, timeout: Seconds) -> Result<Answer<JobView>, Error> {
        self.wait(&path::with_name(path::JOB_WAIT, id), timeout)
    }

    pub fn attempts(&self, id: &str) -> Result<Listing<AttemptView>, Error> {
        self.list(&path::with_name(path::JOB_ATTEMPTS, id))
    }

    pub fn logs(&self, id: &str, query: &PageQuery) -> Result<Page<LineView>, Error> {
        self.get(&with_query(&path::with_name(path::JOB_LOGS, id), query)?)
    }

    /// Sends a file for jobs to read, of `bytes` if they are known.
    pub fn upload(
        &self,
        content_type: &str,
        bytes: Option<u64>,
        content: &mut dyn Read,
    ) -> Result<Answer<UploadView>, Error> {
        self.upload_to(path::ARTIFACTS, content_type, bytes, content)
    }

    /// Opens an artifact of a job.
    pub fn artifact(&self, id: &str, name: &str) -> Result<impl Read + use<>, Error> {
        let of_job = path::with_name(path::JOB_ARTIFACT, id);
        self.open(&path::with_name(&of_job, name))
    }

    pub fn queues(&self) -> Result<Listing<QueueView>, Error> {
        self.list(path::QUEUES)
    }

    pub fn queue(&self, name: &str) -> Result<Answer<QueueView>, Error> {
        self.get(&path::with_name(path::QUEUE, name))
    }

    pub fn pause_queue(&self, name: &str, body: &PauseBody) -> Result<Answer<QueueView>, Error> {
        self.post(&path::with_name(path::QUEUE_PAUSE, name), body)
    }

    pub fn remove_queue(&self, name: &str) -> Result<Answer<RemovedQueueView>, Error> {
        self.delete(&path::with_name(path::QUEUE, name))
    }

    pub fn create_token(&self, body: &NewTokenBody) -> Result<Answer<MintedView>, Error> {
        self.post(path::TOKENS, body)
    }

    pub fn tokens(&self) -> Result<Listing<TokenView>, Error> {
        self.list(path::TOKENS)
    }

    pub fn token(&self, id: &str) -> Result<Answer<TokenView>, Error> {
        self.get(&path::with_name(path::TOKEN, id))
    }

    pub fn own_token(&self) -> Result<Answer<SelfView>, Error> {
        self.get(path::TOKENS_SELF)
    }

    pub fn revoke_token(&self, id: &str) -> Result<Answer<RevokedView>, Error> {
        self.delete(&path::with_name(path::TOKEN, id))
    }

    pub fn rotate_token(&self, id: &str, body: &RotateBody) -> Result<Answer<MintedView>, Error> {
        self.post(&path::with_name(path::TOKEN_ROTATE, id), body)
    }

    pub fn audit(&self, query: &AuditQuery) -> Result<Page<EntryView>, Error> {
        self.get(&with_query(path::AUDIT, query)?)
    }

    pub fn resume_queue(&self, name: &str) -> Result<Answer<QueueView>, Error> {
        self.post(&path::with_name(path::QUEUE_RESUME, name), &Empty {})
    }

    pub fn batches(&self) -> Result<Listing<BatchView>, Error> {
        self.list(path::BATCHES)
    }

    pub fn batch(&self, id: &str) -> Result<Answer<BatchView>, Error> {
        self.get(&path::with_name(path::BATCH, id))
    }

    pub fn new_batch(&self, body: &NewBatchBody) -> Result<Answer<MadeBatchView>, Error> {
        self.post(path::BATCHES, body)
    }

    /// Enqueues a delivery of a ping, which tests a receiver.
    pub fn test_webhook(&self, body: &TestWebhookBody) -> Result<Answer<AcceptedView>, Error> {
        self.post(path::WEBHOOK_TEST, body)
    }

    /// Adds an array of at most 1,000 jobs to a batch.
    pub fn add_to_batch(
        &self,
        id: &str,
        jobs: &impl Serialize,
    ) -> Result<Answer<Vec<AcceptedView>>, Error> {
        self.post(&path::with_name(path::BATCH_JOBS, id), jobs)
    }

    pub fn close_batch(&self, id: &str) -> Result<Answer<BatchView>, Error> {
        self.post(&path::with_name(path::BATCH_CLOSE, id), &Empty {})
    }

    pub fn cancel_batch(
        &self,
        id: &str,
        reason: Option<String>,
    ) -> Result<Answer<BatchView>, Error> {
        let body = CancelBatchBody { reason };
        self.post(&path::with_name(path::BATCH_CANCEL, id), &body)
    }

    pub fn limits(&self) -> Result<Listing<LimitView>, Error> {
        self.list(path::LIMITS)
    }

    /// Shows a limit with so many of its fullest keys.
    pub fn limit(&self, name: &str, keys: u32) -> Result<Answer<LimitView>, Error> {
        let keys = Some(keys);
        self.get(&with_query(
            &path::with_name(path::LIMIT, name),
            &LimitQuery { keys },
        )?)
    }

    pub fn set_limit(&self, name: &str, body: &LimitBody) -> Result<Answer<LimitView>, Error> {
        self.put(&path::with_name(path::LIMIT, name), body)
    }

    pub fn remove_limit(&self, name: &str) -> Result<Answer<RemovedLimitView>, Error> {
        self.delete(&path::with_name(path::LIMIT, name))
    }

    pub fn schedules(&self) -> Result<Listing<ScheduleView>, Error> {
        self.list(path::SCHEDULES)
    }

    pub fn schedule(&self, name: &str) -> Result<Answer<ScheduleView>, Error> {
        self.get(&path::with_name(path::SCHEDULE, name))
    }

    pub fn set_schedule(
        &self,
        name: &str,
        body: &ScheduleBody,
    ) -> Result<Answer<ScheduleView>, Error> {
        self.put(&path::with_name(path::SCHEDULE, name), body)
    }

    pub fn remove_schedule(&self, name: &str) -> Result<Answer<RemovedScheduleView>, Error> {
        self.delete(&path::with_name(path::SCHEDULE, name))
    }

    pub fn coming_firings(&self, name: &str, count: u32) -> Result<Listing<ComingView>, Error> {
        let count = Some(count);
        let path = path::with_name(path::SCHEDULE_NEXT, name);
        let page: Page<ComingView> = self.get(&with_query(&path, &ComingQuery { count })?)?;
        let (now, items) = (page.now, page.view.items);
        Ok(Listing { now, items })
    }

    /// Returns what became of the latest firings, newest first.
    pub fn firings(&self, name: &str) -> Result<Listing<FiringView>, Error> {
        self.list(&path::with_name(path::SCHEDULE_FIRINGS, name))
    }

    pub fn pause_schedule(&self, name: &str) -> Result<Answer<ScheduleView>, Error> {
        self.post(&path::with_name(path::SCHEDULE_PAUSE, name), &Empty {})
    }

    pub fn resume_schedule(&self, name: &str) -> Result<Answer<ScheduleView>, Error> {
        self.post(&path::with_name(path::SCHEDULE_RESUME, name), &Empty {})
    }

    pub fn trigger_schedule(&self, name: &str) -> Result<Answer<TriggeredView>, Error> {
        self.post(&path::with_name(path::SCHEDULE_TRIGGER, name), &Empty {})
    }

    pub fn backfill_schedule(
        &self,
        name: &str,
        body: &BackfillBody,
    ) -> Result<Answer<TriggeredView>, Error> {
        self.post(&path::with_name(path::SCHEDULE_BACKFILL, name), body)
    }

    pub fn state_spaces(&self) -> Result<Listing<StateSpaceView>, Error> {
        self.list(path::STATE)
    }

    pub fn state_keys(
        &self,
        space: &str,
        prefix: Option<&str>,
    ) -> Result<Listing<StateKeyView>, Error> {
        let query = StateQuery {
            prefix: prefix.map(str::to_owned),
            ..StateQuery::default()
        };
        self.list(&with_query(
            &path::with_name(path::STATE_SPACE, space),
            &query,
        )?)
    }

    pub fn state_value(&self, space: &str, key: &str) -> Result<Answer<StateValueView>, Error> {
        self.get(&of_key(space, key)?)
    }

    pub fn set_state(
        &self,
        space: &str,
        key: &str,
        value: Vec<u8>,
    ) -> Result<Answer<StateValueView>, Error> {
        let body = SetStateBody::from_bytes(value);
        self.put(&of_key(space, key)?, &body)
    }

    pub fn remove_state(&self, space: &str, key: &str) -> Result<Answer<RemovedStateView>, Error> {
        self.delete(&of_key(space, key)?)
    }

    /// Removes at most 1,000 keys.
    pub fn remove_state_keys(
        &self,
        space: &str,
        prefix: Option<&str>,
    ) -> Result<Answer<RemovedStateView>, Error> {
        let query = RemoveStateQuery {
            prefix: prefix.map(str::to_owned),
        };
        self.delete(&with_query(
            &path::with_name(path::STATE_SPACE, space),
            &query,
        )?)
    }

    pub fn handlers(&self) -> Result<Listing<HandlerView>, Error> {
        self.list(path::HANDLERS)
    }

    pub fn handler(&self, name: &str) -> Result<Answer<HandlerView>, Error> {
        self.get(&path::with_name(path::HANDLER, name))
    }

    pub fn components(&self) -> Result<Listing<RevisionView>, Error> {
        self.list(path::COMPONENTS)
    }

    pub fn component(&self, name: &str) -> Result<Answer<ComponentView>, Error> {
        self.get(&path::with_name(path::COMPONENT, name))
    }

    pub fn deploy(
        &self,
        name: &str,
        form: &DeployForm<'_>,
        query: &DeployQuery,
    ) -> Result<Answer<DeployedView>, Error> {
        let mut parts = vec![("component", form.component)];
        parts.extend(form.manifest.map(|text| ("manifest", text.as_bytes())));
        parts.extend(form.signature.map(|text| ("signature", text.as_bytes())));
        let body = Multipart::new(&parts);
        let path = with_query(&path::with_name(path::COMPONENT, name), query)?;
        self.send("PUT", &path, &body.kind(), body.body(), COMPILE_PATIENCE)
    }

    pub fn roll_back(
        &self,
        name: &str,
        body: &RollbackBody,
    ) -> Result<Answer<DeployedView>, Error> {
        self.post(&path::with_name(path::COMPONENT_ROLLBACK, name), body)
    }

    pub fn remove_component(&self, name: &str) -> Result<Answer<RemovedView>, Error> {
        self.delete(&path::with_name(path::COMPONENT, name))
    }

    pub fn runners(&self) -> Result<Listing<PoolView>, Error> {
        self.list(path::RUNNERS)
    }

    pub fn runner(&self, name: &str, query: &NodeQuery) -> Result<Answer<PoolView>, Error> {
        self.get(&with_query(&path::with_name(path::RUNNER, name), query)?)
    }

    pub fn restart_runner(
        &self,
        name: &str,
        body: &RestartBody,
    ) -> Result<Answer<PoolView>, Error> {
        self.post(&path::with_name(path::RUNNER_RESTART, name), body)
    }

    pub fn nodes(&self) -> Result<Listing<NodeView>, Error> {
        self.list(path::NODES)
    }

    pub fn node(&self, id: &str) -> Result<Answer<NodeView>, Error> {
        self.get(&path::with_name(path::NODE, id))
    }

    pub fn drain_node(&self, id: &str) -> Result<Answer<AskedView>, Error> {
        self.post(&path::with_name(path::NODE_DRAIN, id), &Empty {})
    }

    pub fn resume_node(&self, id: &str) -> Result<Answer<AskedView>, Error> {
        self.post(&path::with_name(path::NODE_RESUME, id), &Empty {})
    }
}

/// Returns the path of a key of state.
fn of_key(space: &str, key: &str) -> Result<String, Error> {
    let key = key.to_owned();
    with_query(
        &path::with_name(path::STATE_VALUE, space),
        &StateKeyQuery { key },
    )
}
