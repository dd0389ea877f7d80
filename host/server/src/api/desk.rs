//! The desk: answers what running handlers ask of the store. Each run that may ask has a socket of its own, which
//! says what its manifest grants. The other end is in a cell, which is not trusted.

mod artifacts;
mod limits;
mod secrets;
mod state;
mod steps;

use bytes::Bytes;
use futures_util::{SinkExt as _, StreamExt as _};
use host_api::new_job::{BatchPlanBody, JobBatchBody, NewJobBody};
use host_api::webhook::NotifyBody;
use host_cells::process::DeskConnection;
use host_core::artifact::FileSource;
use host_core::desk::{
    DESK_FRAME_BYTES_MAX, DESK_JOBS_BYTES_MAX, DeskAnswer, DeskError, DeskErrorKind, DeskPass,
    DeskRequest,
};
use host_core::glob;
use host_core::id::{BatchId, JobId};
use host_core::job::{HANDLER_WIRE, Membership, NewJob};
use host_core::jobs_grant::JobsGrant;
use host_core::name::Name;
use host_core::state::StateWrite;
use host_core::writes::TooMuch;
use host_engine::job::Enqueue;
use host_http::problem::Kind;
use host_runtime::tasks::Tasks;
use tokio::net::UnixStream;
use tokio::sync::mpsc;
use tokio_util::codec::{Framed, LengthDelimitedCodec};

use self::artifacts::OpenArtifacts;
use self::steps::Journal;
use super::error::ApiError;
use super::{Shared, enqueue};
use crate::webhooks::Webhooks;

/// Marks a refusal among those of the API.
static NOT_GRANTED: Kind = Kind {
    code: "not_granted",
    status: 403,
    title: "Not granted",
    meaning: "The manifest does not grant it.",
    next: "Grant it.",
    retry_after_seconds: None,
};

/// Answers runs until the cells have ended.
pub(super) async fn serve(
    shared: Shared,
    mut visits: mpsc::Receiver<DeskConnection>,
    tasks: Tasks,
) {
    while let Some(visit) = visits.recv().await {
        tasks.spawn(attend(Shared::clone(&shared), visit));
    }
}

/// Answers one run, until its socket is closed, it sends something else than requests, or others may have taken over its
/// job.
async fn attend(shared: Shared, visit: DeskConnection) {
    let DeskConnection {
        pass,
        socket,
        lifeline,
    } = visit;
    let is_over = || lifeline.as_ref().is_some_and(|it| it.has_passed());
    let opened = socket
        .set_nonblocking(true)
        .and_then(|()| UnixStream::from_std(socket));
    let stream = match opened {
        Ok(stream) => stream,
        Err(error) => {
            return tracing::warn!(job = %pass.job, %error, "cannot connect a run to the desk");
        }
    };
    let mut codec = LengthDelimitedCodec::new();
    codec.set_max_frame_length(DESK_FRAME_BYTES_MAX);
    let mut frames = Framed::new(stream, codec);
    let mut session = Session::default();
    while let Some(Ok(frame)) = frames.next().await {
        let Ok(request) = postcard::from_bytes::<DeskRequest>(&frame) else {
            return tracing::warn!(job = %pass.job, "a cell sent the desk an invalid request");
        };
        drop(frame);
        if is_over() {
            return;
        }
        let answer = answer(&shared, &pass, &mut session, request).await;
        // The store may have been slow, or this process suspended.
        if is_over() {
            return;
        }
        let sent = match postcard::to_stdvec(&answer) {
            Ok(frame) => frames.send(Bytes::from(frame)).await,
            Err(error) => return tracing::error!(%error, "cannot encode an answer of the desk"),
        };
        if sent.is_err() {
            return;
        }
    }
}

/// What a run has begun.
#[derive(Debug, Default)]
struct Session {
    artifacts: OpenArtifacts,
    journal: Journal,
}

async fn answer(
    shared: &Shared,
    pass: &DeskPass,
    session: &mut Session,
    request: DeskRequest,
) -> Result<DeskAnswer, DeskError> {
    if pass.writes.decided().is_some() {
        return Ok(DeskAnswer::Ended);
    }
    let Session { artifacts, journal } = session;
    match request {
        DeskRequest::Enqueue { jobs, now } => enqueue_jobs(shared, pass, jobs, now)
            .await
            .map(DeskAnswer::Jobs),
        DeskRequest::Get { space, key } => {
            let (space, _) = state::space(pass, space)?;
            let value = state::get(shared, pass, &space, &key).await?;
            Ok(DeskAnswer::Value(value))
        }
        DeskRequest::Set {
            space,
            key,
            value,
            expected,
            now,
        } => {
            let space = state::space(pass, space)?;
            let write = StateWrite {
                key,
                value,
                expected,
            };
            let set = state::set(shared, pass, space, write, now).await?;
            Ok(DeskAnswer::Set(set))
        }
        DeskRequest::List {
            space,
            prefix,
            after,
        } => {
            let (space, _) = state::space(pass, space)?;
            let keys = state::list(shared, pass, space, prefix, after).await?;
            Ok(DeskAnswer::Keys(keys))
        }
        DeskRequest::Hold { limit, ms } => {
            limits::hold(shared, pass, &limit, ms).await?;
            Ok(DeskAnswer::Held)
        }
        DeskRequest::CreateArtifact { name, content_type } => {
            let number = artifacts.create(shared, pass, name, content_type).await?;
            Ok(DeskAnswer::Artifact(number))
        }
        DeskRequest::WriteArtifact { artifact, content } => {
            artifacts.write(pass, artifact, content).await?;
            Ok(DeskAnswer::Written)
        }
        DeskRequest::CloseArtifact { artifact } => {
            artifacts.close(pass, artifact).await?;
            Ok(DeskAnswer::Written)
        }
        DeskRequest::OpenArtifact { name } => {
            let number = artifacts.open(shared, pass, name).await?;
            Ok(DeskAnswer::Artifact(number))
        }
        DeskRequest::ReadArtifact {
            artifact,
            bytes_max,
        } => {
            let content = artifacts.read(artifact, bytes_max as usize).await?;
            Ok(DeskAnswer::Content(content))
        }
        DeskRequest::BeginStep { name } => journal.begin(shared, pass, &name).await,
        DeskRequest::CheckpointStep { checkpoint } => {
            let commit = journal.checkpoint(shared, pass, checkpoint);
            commit.await.map(|()| DeskAnswer::Written)
        }
        DeskRequest::CompleteStep { result } => {
            let commit = journal.complete(shared, pass, result);
            commit.await.map(|()| DeskAnswer::Written)
        }
        DeskRequest::FailStep { error } => journal.fail(pass, error).map(|()| DeskAnswer::Written),
        DeskRequest::Reveal { name } => secrets::reveal(shared, pass, name)
            .await
            .map(DeskAnswer::Secret),
    }
}

/// Enqueues jobs now or with the attempt's end. Returns their ids.
async fn enqueue_jobs(
    shared: &Shared,
    pass: &DeskPass,
    text: String,
    now: bool,
) -> Result<Vec<String>, DeskError> {
    if text.len() > DESK_JOBS_BYTES_MAX {
        let message = format!("the jobs of one call may have at most {DESK_JOBS_BYTES_MAX} bytes");
        return Err(DeskError::new(DeskErrorKind::InvalidRequest, message));
    }
    let grants = pass.jobs.clone();
    let handler = pass.handler.clone();
    let (webhooks, notify) = (shared.api.webhooks.clone(), pass.notify.clone());
    let may_one = move |body: &NewJobBody, receiver: Option<&NotifyBody>| {
        for receiver in body.notify.iter().chain(receiver) {
            check_receiver(&webhooks, &handler, &notify, receiver)?;
        }
        if is_granted(&grants, body) {
            return Ok(());
        }
        let queue = queue(body);
        let detail = format!(
            "the manifest does not grant {handler} to enqueue {:?} in the queue {queue:?}; add both to \
             [[handlers.{handler}.jobs]]",
            body.handler
        );
        Err(ApiError::new(&NOT_GRANTED, detail))
    };
    let may = move |body: &NewJobBody| {
        let plan = body.batch.as_ref().and_then(JobBatchBody::plan);
        may_one(body, plan.and_then(|plan| plan.notify.as_ref()))?;
        let mut callbacks = plan.into_iter().flat_map(BatchPlanBody::callbacks);
        callbacks.try_for_each(|(_, callback)| may_one(callback, None))
    };
    let text = Bytes::from(text);
    let jobs = enqueue::jobs_inside(
        shared,
        text,
        HANDLER_WIRE,
        &pass.trace,
        pass.writes.origin(),
        may,
    )
    .await
    .map_err(|error| desk_error(&error))?;
    check_batches(shared, pass, &jobs).await?;
    check_inputs(&jobs)?;
    if now {
        pass.writes.count_now(&jobs).map_err(too_much)?;
        let submitted = shared.api.dispatch.submit(Enqueue(jobs)).await;
        let enqueued = submitted.map_err(|error| desk_error(&error.into()))?;
        return Ok(enqueued.iter().map(|it| it.id.to_string()).collect());
    }
    let ids = jobs.iter().map(|job| job.id.to_string()).collect();
    pass.writes.enqueue(jobs).map_err(too_much)?;
    Ok(ids)
}

/// Refuses a receiver of no webhook that a handler is granted.
fn check_receiver(
    webhooks: &Webhooks,
    handler: &Name,
    granted: &[Name],
    receiver: &NotifyBody,
) -> Result<(), ApiError> {
    let found = webhooks
        .find(&receiver.url, &receiver.secret)
        .map_err(|why| ApiError::invalid(format!("notify.url: {why}")))?;
    if found.iter().any(|(name, _)| granted.contains(name)) {
        return Ok(());
    }
    let names: Vec<String> = found
        .iter()
        .map(|(name, _)| format!("{:?}", name.as_str()))
        .collect();
    let detail = format!(
        "the manifest does not grant {handler} to notify the webhook {}; add it to notify in [handlers.{handler}]",
        names.join(" or ")
    );
    Err(ApiError::new(&NOT_GRANTED, detail))
}

/// Refuses jobs that join another batch than that of the handler's own job, or one that the attempt makes.
async fn check_batches(shared: &Shared, pass: &DeskPass, jobs: &[NewJob]) -> Result<(), DeskError> {
    let makes = |batch: &BatchId| {
        let mut starts = jobs.iter().filter(|job| job.starts_batch());
        pass.writes.makes(*batch) || starts.any(|job| job.batch_id() == Some(*batch))
    };
    let named = jobs.iter().filter_map(|job| match job.batch {
        Some(Membership::Joins(batch)) => Some(batch),
        _ => None,
    });
    let mut joined = named.filter(|batch| !makes(batch));
    let Some(first) = joined.next() else {
        return Ok(());
    };
    let id = pass.job;
    let found = shared
        .api
        .dispatch
        .read(move |reader| reader.job(id))
        .await
        .map_err(|error| desk_error(&error.into()))?;
    let own = found.and_then(|job| job.lifecycle.batch);
    if own == Some(first) && joined.all(|batch| batch == first) {
        return Ok(());
    }
    let message = "batch: a handler can add jobs only to the batch of its own job, which the attribute batch.id names, and to \
                   those that it has made";
    Err(DeskError::new(DeskErrorKind::InvalidRequest, message))
}

/// Refuses inputs and files from jobs other than those of the same call: a handler may not read what they have.
fn check_inputs(jobs: &[NewJob]) -> Result<(), DeskError> {
    let is_new = |id: JobId| jobs.iter().any(|job| job.id == id);
    let conditions = jobs.iter().filter_map(|job| job.conditions.as_ref());
    let mut inputs = conditions.flat_map(|it| &it.inputs);
    let files = jobs.iter().flat_map(|job| &job.files);
    let mut artifacts = files.filter_map(|file| match file.source {
        FileSource::Artifact(job, _) => Some((&file.name, job)),
        FileSource::Upload(_) => None,
    });
    if let Some((name, _)) = artifacts.find(|(_, job)| !is_new(*job)) {
        let message = format!(
            "files.{name}: a handler can pass on only artifacts of jobs of the same call, named #n"
        );
        return Err(DeskError::new(DeskErrorKind::InvalidRequest, message));
    }
    match inputs.find(|(_, id)| !is_new(*id)) {
        None => Ok(()),
        Some((name, _)) => {
            let message = format!(
                "inputs.{name}: a handler can pass on only results of jobs of the same call, named #n"
            );
            Err(DeskError::new(DeskErrorKind::InvalidRequest, message))
        }
    }
}

fn queue(body: &NewJobBody) -> String {
    let default = || Name::default_queue().to_string();
    body.queue.clone().unwrap_or_else(default)
}

fn is_granted(grants: &[JobsGrant], body: &NewJobBody) -> bool {
    let queue = queue(body);
    let fits = |patterns: &[String], name: &str| {
        let mut patterns = patterns.iter();
        patterns.any(|pattern| glob::matches(pattern, name))
    };
    let mut grants = grants.iter();
    grants.any(|it| fits(&it.handlers, &body.handler) && fits(&it.queues, &queue))
}

fn desk_error(error: &ApiError) -> DeskError {
    let kind = if error.kind() == &NOT_GRANTED {
        DeskErrorKind::NotGranted
    } else {
        match error.kind().status {
            429 | 500.. => DeskErrorKind::Unavailable,
            _ => DeskErrorKind::InvalidRequest,
        }
    };
    DeskError::new(kind, error.detail())
}

fn too_much(limit: TooMuch) -> DeskError {
    let kind = match limit {
        TooMuch::AllBytes => DeskErrorKind::Unavailable,
        TooMuch::Jobs
        | TooMuch::JobsNow
        | TooMuch::Dependencies
        | TooMuch::Keys
        | TooMuch::Artifacts
        | TooMuch::Bytes => DeskErrorKind::LimitReached,
    };
    DeskError::new(kind, limit.to_string())
}
