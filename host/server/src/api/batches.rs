//! Batches of jobs: making them, adding to them, closing, cancelling and showing them.

use axum::Json;
use axum::extract::{Request, State};
use axum::http::StatusCode;
use bytes::Bytes;
use host_api::batch::{BatchView, BatchesQuery, CancelBatchBody, MadeBatchView, NewBatchBody};
use host_api::new_job::{AcceptedView, BatchPlanBody, NewJobBody, NewJobsBody};
use host_api::page::PageView;
use host_api::path;
use host_core::id::BatchId;
use host_core::job::{NewJob, Origin};
use host_engine::Rejection;
use host_engine::audit::Note;
use host_engine::batch::tables::older;
use host_engine::batch::{BatchRefusal, CancelBatch, CloseBatch, JobBatch, NewBatch, On};
use host_engine::job::Enqueue;
use host_http::extract::{EmptyBody, InQuery, TextInPath, small_body_or_default};
use host_http::gate::Caller;
use host_http::json;
use host_http::query::page_limit;
use host_runtime::ids;

use super::Shared;
use super::actor::Actor;
use super::enqueue::{
    self, JOBS_BYTES_MAX, accepted_views, batch_plan, callback_bodies, join, let_read, origin_of,
    trace_headers,
};
use super::error::ApiError;
use super::jobs::check_reason;
use super::problem::kinds;
use super::scoped::scope;

/// Makes a batch with its first jobs, all or nothing.
#[utoipa::path(
    post, path = path::BATCHES, tag = "batches", operation_id = "new_batch",
    request_body(content = NewBatchBody, description = "At most 8 MiB."),
    responses((status = 201, body = MadeBatchView))
)]
pub(super) async fn new(
    State(shared): State<Shared>,
    caller: Caller,
    request: Request,
) -> Result<(StatusCode, Json<MadeBatchView>), ApiError> {
    let (parts, body) = request.into_parts();
    let bodies = &shared.api.bodies;
    let received = bodies.read(&parts, body, JOBS_BYTES_MAX).await?;
    let mut body: NewBatchBody = json::read_object(&received.bytes)?;
    let jobs = body.jobs.take();
    let body = BatchPlanBody::from(body);
    let (id, origin) = (
        BatchId(ids::job(shared.api.clock.now()).0),
        origin_of(&caller.principal),
    );
    let trace = trace_headers(&parts.headers);
    let callbacks = callbacks(&shared, id, &body, origin.clone(), &trace).await?;
    let is_open = body.open;
    let plan = batch_plan(&shared.api, body, callbacks, origin)?;
    let is_empty = |text: &str| {
        let inner = text.strip_prefix('[').and_then(|it| it.strip_suffix(']'));
        inner.is_some_and(|inner| inner.trim_ascii().is_empty())
    };
    let jobs = jobs.filter(|jobs| !is_empty(jobs.get()));
    let jobs = match jobs {
        None => Vec::new(),
        Some(text) if text.get().starts_with('[') => {
            let text = Bytes::from(String::from(Box::<str>::from(text)));
            jobs_of(&shared, &caller, id, text, &trace).await?
        }
        Some(_) => return Err(ApiError::invalid("jobs: must be an array")),
    };
    let new = NewBatch {
        id,
        plan,
        is_open,
        jobs,
    };
    let submitted = shared.api.dispatch.submit(new);
    let jobs = accepted_views(&shared, &caller, submitted.await?).await;
    let batch = view(&shared, &caller, id).await?;
    Ok((StatusCode::CREATED, Json(MadeBatchView { batch, jobs })))
}

/// Lists the batches, newest first.
#[utoipa::path(
    get, path = path::BATCHES, tag = "batches", operation_id = "list_batches",
    params(BatchesQuery),
    responses((status = 200, body = PageView<BatchView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
    InQuery(query): InQuery<BatchesQuery>,
) -> Result<Json<PageView<BatchView>>, ApiError> {
    let limit = page_limit(query.limit)?;
    let before = query
        .cursor
        .as_deref()
        .map(str::parse::<BatchId>)
        .transpose()
        .map_err(|_| ApiError::new(&kinds::INVALID_QUERY, "cursor: must be a next_cursor"))?;
    let range = older(before, limit);
    let page = shared.api.dispatch.list::<JobBatch>(range).await?;
    let is_full = page.rows() == limit as usize;
    let last = page.records.last().filter(|_| is_full);
    let next_cursor = last.map(|last| last.id.to_string());
    let seen = page.records.iter().filter(|batch| sees(&caller, batch));
    Ok(Json(PageView {
        items: seen.map(BatchView::new).collect(),
        next_cursor,
    }))
}

/// Shows one batch.
#[utoipa::path(
    get, path = path::BATCH, tag = "batches", operation_id = "show_batch",
    params(("id" = String, Path, description = "The batch's id")),
    responses((status = 200, body = BatchView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    caller: Caller,
    TextInPath(text): TextInPath,
) -> Result<Json<BatchView>, ApiError> {
    let id = id_of(&text)?;
    view(&shared, &caller, id).await.map(Json)
}

/// Adds one job or an array of jobs to an open batch, all or none.
#[utoipa::path(
    post, path = path::BATCH_JOBS, tag = "batches", operation_id = "add_to_batch",
    params(("id" = String, Path, description = "The batch's id")),
    request_body(content = NewJobsBody, description = "One job, or an array of at most 1,000 jobs and 8 MiB."),
    responses((status = 201, body = Vec<AcceptedView>))
)]
pub(super) async fn add(
    State(shared): State<Shared>,
    caller: Caller,
    TextInPath(text): TextInPath,
    request: Request,
) -> Result<(StatusCode, Json<Vec<AcceptedView>>), ApiError> {
    let id = id_of(&text)?;
    let (parts, body) = request.into_parts();
    let bodies = &shared.api.bodies;
    let received = bodies.read(&parts, body, JOBS_BYTES_MAX).await?;
    let trace = trace_headers(&parts.headers);
    let jobs = jobs_of(&shared, &caller, id, received.bytes.clone(), &trace).await?;
    let submitted = shared.api.dispatch.submit(Enqueue(jobs)).await?;
    let accepted = accepted_views(&shared, &caller, submitted).await;
    Ok((StatusCode::CREATED, Json(accepted)))
}

/// Closes a batch: no more jobs may be added, except by its own jobs.
#[utoipa::path(
    post, path = path::BATCH_CLOSE, tag = "batches", operation_id = "close_batch",
    params(("id" = String, Path, description = "The batch's id")),
    request_body = Option<EmptyBody>,
    responses((status = 200, body = BatchView))
)]
pub(super) async fn close(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    TextInPath(text): TextInPath,
    request: Request,
) -> Result<Json<BatchView>, ApiError> {
    let id = id_of(&text)?;
    let EmptyBody {} = small_body_or_default(&shared.api.bodies, request).await?;
    find(&shared, &caller, id).await?;
    let close = CloseBatch { batch: id };
    let note = actor.note(format!("batch {id}")).detail("closed");
    shared.submit(close, note).await?;
    view(&shared, &caller, id).await.map(Json)
}

/// Closes a batch and cancels its jobs. Large batches are cancelled in slices, so some jobs may still start.
#[utoipa::path(
    post, path = path::BATCH_CANCEL, tag = "batches", operation_id = "cancel_batch",
    params(("id" = String, Path, description = "The batch's id")),
    request_body = Option<CancelBatchBody>,
    responses((status = 200, body = BatchView))
)]
pub(super) async fn cancel(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    TextInPath(text): TextInPath,
    request: Request,
) -> Result<Json<BatchView>, ApiError> {
    let id = id_of(&text)?;
    let CancelBatchBody { reason } = small_body_or_default(&shared.api.bodies, request).await?;
    check_reason(reason.as_deref())?;
    find(&shared, &caller, id).await?;
    let note = Note {
        detail: reason.clone(),
        ..actor.note(format!("batch {id}"))
    };
    let cancel = CancelBatch { batch: id, reason };
    shared.submit(cancel, note).await?;
    view(&shared, &caller, id).await.map(Json)
}

/// Reads the jobs of a batch.
async fn jobs_of(
    shared: &Shared,
    caller: &Caller,
    id: BatchId,
    text: Bytes,
    trace: &[(String, String)],
) -> Result<Vec<NewJob>, ApiError> {
    let may = |body: &NewJobBody| match body.batch {
        Some(_) => Err(ApiError::invalid("batch: the path already names the batch")),
        None => Ok(()),
    };
    let origin = origin_of(&caller.principal);
    let mut jobs = enqueue::jobs_inside(shared, text, "http", trace, origin, may).await?;
    let_read(caller, &mut jobs);
    for job in &mut jobs {
        join(job, id);
    }
    Ok(jobs)
}

/// Reads the callbacks of a batch.
async fn callbacks(
    shared: &Shared,
    id: BatchId,
    body: &BatchPlanBody,
    origin: Option<Box<Origin>>,
    trace: &[(String, String)],
) -> Result<Vec<(On, NewJob)>, ApiError> {
    let (kinds, bodies): (Vec<_>, Vec<_>) = callback_bodies(id, body)?.into_iter().unzip();
    if bodies.is_empty() {
        return Ok(Vec::new());
    }
    let text = Bytes::from(serde_json::to_vec(&bodies).unwrap_or_default());
    let may = |_: &NewJobBody| Ok(());
    let jobs = enqueue::jobs_inside(shared, text, "batch", trace, origin, may).await?;
    Ok(kinds.into_iter().zip(jobs).collect())
}

/// Reads the id in a path.
fn id_of(text: &str) -> Result<BatchId, ApiError> {
    let shown: String = text.chars().take(64).collect();
    let unknown = |_| {
        let detail = format!("no batch has the id {shown:?}; write the whole id");
        ApiError::new(&kinds::BATCH_NOT_FOUND, detail)
    };
    text.parse().map_err(unknown)
}

/// Finds a batch that the caller may see.
async fn find(shared: &Shared, caller: &Caller, id: BatchId) -> Result<JobBatch, ApiError> {
    let found = shared
        .read(move |reader| reader.get::<JobBatch>(id))
        .await?
        .filter(|batch| sees(caller, batch));
    Ok(found.ok_or(Rejection::Batch(BatchRefusal::Unknown(id)))?)
}

async fn view(shared: &Shared, caller: &Caller, id: BatchId) -> Result<BatchView, ApiError> {
    Ok(BatchView::new(&find(shared, caller, id).await?))
}

fn sees(caller: &Caller, batch: &JobBatch) -> bool {
    batch.is_visible_to(&caller.principal.name, scope(caller))
}
