//! Schedules: setting, showing, pausing and triggering them. `firing.rs` lets them fire.

pub(super) mod firing;

use axum::Json;
use axum::extract::{Request, State};
use bytes::Bytes;
use host_api::new_job::NewJobBody;
use host_api::page::{PageView, next_cursor};
use host_api::path;
use host_api::schedule::{
    BackfillBody, ComingQuery, ComingView, FiringView, RemovedScheduleView, ScheduleBody,
    ScheduleView, SchedulesQuery, TriggeredView, may_be_scheduled,
};
use host_api::time::instant;
use host_core::access::{Object, Verb};
use host_core::job::NewJob;
use host_core::name::{EXECUTOR_SEPARATOR, Name};
use host_core::time::Time;
use host_engine::Rejection;
use host_engine::schedule::tables::read_firings;
use host_engine::schedule::{
    Fate, Firing, KeptSchedule, NOMINALS_MAX, RemoveSchedule, Schedule, ScheduleRefusal,
    SetSchedule, Source,
};
use host_engine::table::{Range, Value};
use host_http::extract::{EmptyBody, InPath, InQuery, small_body, small_body_or_default};
use host_http::gate::Caller;
use host_http::query::{items, page_limit};
use serde_json::value::RawValue;

use self::firing::fire;
use super::Shared;
use super::actor::Actor;
use super::enqueue::{self, origin_of};
use super::error::ApiError;
use super::problem::kinds;
use super::scoped::{needs, scope, sees_payloads};

/// How many coming times are shown if a request does not say.
const COMING_SHOWN: u32 = 20;

/// Sets a schedule, new or in place of the one with its name.
#[utoipa::path(
    put, path = path::SCHEDULE, tag = "schedules", operation_id = "set_schedule",
    params(("name" = String, Path, description = "The schedule's name")),
    request_body = ScheduleBody,
    responses((status = 200, body = ScheduleView))
)]
pub(super) async fn set(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<ScheduleView>, ApiError> {
    // It says which jobs will be enqueued.
    needs(&caller, Verb::Enqueue)?;
    let body: ScheduleBody = small_body(&shared.api.bodies, request).await?;
    let (origin, wall) = (origin_of(&caller.principal), shared.api.clock.civil());
    let schedule = body
        .into_schedule(name.clone(), Source::Api, origin)
        .map_err(ApiError::invalid)?;
    if let Some(before) = read_schedule(&shared, name.clone()).await?
        && !sees(&caller, &before.schedule)
    {
        let detail = format!("another schedule is named {name}");
        return Err(ApiError::new(&kinds::OUT_OF_SCOPE, detail));
    }
    let checked = schedule.check(wall);
    checked.map_err(|error| ApiError::invalid(error.to_string()))?;
    job_of(&shared, &schedule).await?;
    let schedule = Box::new(schedule);
    let set = SetSchedule { schedule, wall };
    let note = actor.note(format!("schedule {name}")).detail("set");
    shared.submit(set, note).await?;
    view(&shared, &caller, name).await
}

/// Lists the schedules by name.
#[utoipa::path(
    get, path = path::SCHEDULES, tag = "schedules", operation_id = "list_schedules",
    params(SchedulesQuery),
    responses((status = 200, body = PageView<ScheduleView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
    caller: Caller,
    InQuery(query): InQuery<SchedulesQuery>,
) -> Result<Json<PageView<ScheduleView>>, ApiError> {
    let limit = page_limit(query.limit)?;
    let mut after = Value::from(query.cursor.unwrap_or_default());
    let mut seen = Vec::new();
    // A cursor names a schedule, so it must be one that the caller sees.
    loop {
        let range = Range::all().after(after).first(limit);
        let page = shared.api.dispatch.list::<KeptSchedule>(range).await?;
        let is_full = page.rows() == limit as usize;
        let last = page.last.filter(|_| is_full);
        let wanted = limit as usize - seen.len();
        let of_caller = page
            .records
            .into_iter()
            .filter(|kept| sees(&caller, &kept.schedule));
        seen.extend(of_caller.take(wanted));
        match last {
            Some(last) if seen.len() < limit as usize => after = last,
            _ => break,
        }
    }
    let next_cursor = next_cursor(&seen, limit, |last| &last.schedule.name);
    let items: Result<_, _> = seen
        .into_iter()
        .map(|kept| schedule_view(&caller, kept))
        .collect();
    Ok(Json(PageView {
        items: items?,
        next_cursor,
    }))
}

/// Shows one schedule.
#[utoipa::path(
    get, path = path::SCHEDULE, tag = "schedules", operation_id = "show_schedule",
    params(("name" = String, Path, description = "The schedule's name")),
    responses((status = 200, body = ScheduleView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    caller: Caller,
    InPath(name): InPath<Name>,
) -> Result<Json<ScheduleView>, ApiError> {
    view(&shared, &caller, name).await
}

/// Shows the times at which a schedule will fire.
#[utoipa::path(
    get, path = path::SCHEDULE_NEXT, tag = "schedules", operation_id = "coming_firings",
    params(("name" = String, Path, description = "The schedule's name"), ComingQuery),
    responses((status = 200, body = PageView<ComingView>))
)]
pub(super) async fn next(
    State(shared): State<Shared>,
    caller: Caller,
    InPath(name): InPath<Name>,
    InQuery(query): InQuery<ComingQuery>,
) -> Result<Json<PageView<ComingView>>, ApiError> {
    let count = items("count", query.count, COMING_SHOWN)?;
    let KeptSchedule { schedule, progress } = find(&shared, &caller, name).await?;
    let after = progress
        .next
        .map(|next| Time(next.0 - 1))
        .filter(|_| !schedule.is_paused);
    let coming = after
        .map(|after| schedule.coming(after).take(count as usize))
        .into_iter()
        .flatten();
    let items = coming.map(|nominal| ComingView::new(&schedule, nominal));
    Ok(Json(PageView::whole(items.collect())))
}

/// Shows what became of the latest firings of a schedule, newest first: at most 100.
#[utoipa::path(
    get, path = path::SCHEDULE_FIRINGS, tag = "schedules", operation_id = "latest_firings",
    params(("name" = String, Path, description = "The schedule's name")),
    responses((status = 200, body = PageView<FiringView>))
)]
pub(super) async fn firings(
    State(shared): State<Shared>,
    caller: Caller,
    InPath(name): InPath<Name>,
) -> Result<Json<PageView<FiringView>>, ApiError> {
    find(&shared, &caller, name.clone()).await?;
    let found = shared
        .read(move |reader| read_firings(reader, &name))
        .await?;
    let items = found.into_iter().map(|firing| {
        let refused = matches!(firing.fate, Fate::Failed(_));
        let mut view = FiringView::from(firing);
        // Why a job was refused may quote its params.
        if refused && !sees_payloads(&caller) {
            view.withheld = view
                .reason
                .take()
                .map(|_| "reason".to_owned())
                .into_iter()
                .collect();
        }
        view
    });
    Ok(Json(PageView::whole(items.collect())))
}

/// Stops a schedule from firing until it is resumed. Nominal times in between are not made up for.
#[utoipa::path(
    post, path = path::SCHEDULE_PAUSE, tag = "schedules", operation_id = "pause_schedule",
    params(("name" = String, Path, description = "The schedule's name")),
    request_body = Option<EmptyBody>,
    responses((status = 200, body = ScheduleView))
)]
pub(super) async fn pause(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<ScheduleView>, ApiError> {
    let EmptyBody {} = small_body_or_default(&shared.api.bodies, request).await?;
    set_paused(&shared, &caller, &actor, name, true).await
}

/// Lets a paused schedule fire again.
#[utoipa::path(
    post, path = path::SCHEDULE_RESUME, tag = "schedules", operation_id = "resume_schedule",
    params(("name" = String, Path, description = "The schedule's name")),
    request_body = Option<EmptyBody>,
    responses((status = 200, body = ScheduleView))
)]
pub(super) async fn resume(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<ScheduleView>, ApiError> {
    let EmptyBody {} = small_body_or_default(&shared.api.bodies, request).await?;
    set_paused(&shared, &caller, &actor, name, false).await
}

async fn set_paused(
    shared: &Shared,
    caller: &Caller,
    actor: &Actor,
    name: Name,
    is_paused: bool,
) -> Result<Json<ScheduleView>, ApiError> {
    let kept = find(shared, caller, name.clone()).await?;
    let wall = shared.api.clock.civil();
    let schedule = Box::new(Schedule {
        is_paused,
        ..kept.schedule
    });
    if !is_paused {
        let checked = schedule.check(wall);
        checked.map_err(|error| ApiError::invalid(error.to_string()))?;
    }
    let set = SetSchedule { schedule, wall };
    let detail = if is_paused { "paused" } else { "resumed" };
    let note = actor.note(format!("schedule {name}")).detail(detail);
    shared.submit(set, note).await?;
    view(shared, caller, name).await
}

/// Enqueues the job of a schedule now, even if an earlier one runs.
#[utoipa::path(
    post, path = path::SCHEDULE_TRIGGER, tag = "schedules", operation_id = "trigger_schedule",
    params(("name" = String, Path, description = "The schedule's name")),
    request_body = Option<EmptyBody>,
    responses((status = 200, body = TriggeredView))
)]
pub(super) async fn trigger(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<TriggeredView>, ApiError> {
    let EmptyBody {} = small_body_or_default(&shared.api.bodies, request).await?;
    find(&shared, &caller, name.clone()).await?;
    let nominals = vec![shared.api.clock.civil()];
    fire_at(&shared, &actor, name, nominals, "triggered").await
}

/// Enqueues a job for each nominal time of a schedule in a range, even if earlier ones run: at most 1,000, all or none.
#[utoipa::path(
    post, path = path::SCHEDULE_BACKFILL, tag = "schedules", operation_id = "backfill_schedule",
    params(("name" = String, Path, description = "The schedule's name")),
    request_body = BackfillBody,
    responses((status = 200, body = TriggeredView))
)]
pub(super) async fn backfill(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<TriggeredView>, ApiError> {
    let body: BackfillBody = small_body(&shared.api.bodies, request).await?;
    let from = instant("from", &body.from).map_err(ApiError::invalid)?;
    let until = instant("until", &body.until).map_err(ApiError::invalid)?;
    let kept = find(&shared, &caller, name.clone()).await?;
    let coming = kept
        .schedule
        .coming(Time(from.0.saturating_sub(1)))
        .take_while(|nominal| *nominal <= until);
    let nominals: Vec<Time> = coming.take(NOMINALS_MAX + 1).collect();
    if nominals.is_empty() || nominals.len() > NOMINALS_MAX {
        let found = if nominals.is_empty() { "none" } else { "more" };
        let detail = format!(
            "from and until: must have 1–{NOMINALS_MAX} nominal times between them, got {found}"
        );
        return Err(ApiError::invalid(detail));
    }
    let detail = format!("backfilled from {} until {}", body.from, body.until);
    fire_at(&shared, &actor, name, nominals, &detail).await
}

async fn fire_at(
    shared: &Shared,
    actor: &Actor,
    name: Name,
    nominals: Vec<Time>,
    detail: &str,
) -> Result<Json<TriggeredView>, ApiError> {
    loop {
        let found = read_schedule(shared, name.clone())
            .await?
            .ok_or_else(|| Rejection::Schedule(ScheduleRefusal::Unknown(name.clone())))?;
        let job = job_of(shared, &found.schedule).await?;
        let fire = fire(shared, &found, Ok(job), Some(nominals.clone()));
        let note = actor.note(format!("schedule {name}")).detail(detail);
        match shared.submit(fire, note).await {
            Ok(firings) => {
                let jobs = firings.iter().filter_map(job_id).collect();
                return Ok(Json(TriggeredView { jobs }));
            }
            // It has fired by itself in the meantime.
            Err(host_dispatch::SubmitError::Rejected(Rejection::Schedule(
                ScheduleRefusal::Changed(_),
            ))) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn job_id(firing: &Firing) -> Option<String> {
    match firing.fate {
        Fate::Fired(id) => Some(id.to_string()),
        _ => None,
    }
}

/// Removes a schedule. The jobs that it has enqueued stay.
#[utoipa::path(
    delete, path = path::SCHEDULE, tag = "schedules", operation_id = "remove_schedule",
    params(("name" = String, Path, description = "The schedule's name")),
    responses((status = 200, body = RemovedScheduleView))
)]
pub(super) async fn remove(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
) -> Result<Json<RemovedScheduleView>, ApiError> {
    match find(&shared, &caller, name.clone()).await {
        Ok(found) if found.schedule.source == Source::Api => {}
        Ok(found) => {
            let (schedule, owner) = (name, found.schedule.source);
            return Err(Rejection::Schedule(ScheduleRefusal::Owned { schedule, owner }).into());
        }
        // It cannot be read, so a caller without a scope may remove it.
        Err(error) if error.kind() == &kinds::STORE_DAMAGED && scope(&caller).is_all() => {}
        Err(error) => return Err(error),
    }
    let schedule = name.clone();
    let remove = RemoveSchedule { schedule };
    let note = actor.note(format!("schedule {name}")).detail("removed");
    shared.submit(remove, note).await?;
    let (name, removed) = (name.into(), true);
    Ok(Json(RemovedScheduleView { name, removed }))
}

/// Makes the job that a schedule enqueues now.
async fn job_of(shared: &Shared, schedule: &Schedule) -> Result<NewJob, ApiError> {
    let text = Bytes::from(schedule.job.as_str().to_owned());
    let origin = schedule.origin.clone();
    let may = |body: &NewJobBody| may_be_scheduled(body).map_err(ApiError::invalid);
    let jobs = enqueue::jobs_inside(shared, text, "schedule", &[], origin, may).await?;
    let one = <[NewJob; 1]>::try_from(jobs);
    one.map(|[job]| job)
        .map_err(|_| ApiError::invalid("job: must be one job, not an array"))
}

async fn read_schedule(shared: &Shared, name: Name) -> Result<Option<KeptSchedule>, ApiError> {
    Ok(shared
        .read(move |reader| reader.get::<KeptSchedule>(&name))
        .await?)
}

/// Finds a schedule that the caller may see.
async fn find(shared: &Shared, caller: &Caller, name: Name) -> Result<KeptSchedule, ApiError> {
    let found = read_schedule(shared, name.clone())
        .await?
        .filter(|kept| sees(caller, &kept.schedule));
    Ok(found.ok_or(Rejection::Schedule(ScheduleRefusal::Unknown(name)))?)
}

async fn view(
    shared: &Shared,
    caller: &Caller,
    name: Name,
) -> Result<Json<ScheduleView>, ApiError> {
    let found = find(shared, caller, name).await?;
    schedule_view(caller, found).map(Json)
}

/// Returns whether a caller may see the jobs of a schedule.
fn sees(caller: &Caller, schedule: &Schedule) -> bool {
    if scope(caller).is_all() {
        return true;
    }
    let job = serde_json::from_str::<NewJobBody>(schedule.job.as_str());
    job.is_ok_and(|job| {
        let queue = job.queue.as_deref().unwrap_or("default");
        let named = job.handler.split_once(EXECUTOR_SEPARATOR);
        let object = match named {
            Some((runner, handler)) => Object::Job(queue, Some(runner), handler),
            None => Object::Job(queue, None, &job.handler),
        };
        scope(caller).has(object)
    })
}

/// Shows a schedule, without params unless the caller may see payloads.
fn schedule_view(caller: &Caller, kept: KeptSchedule) -> Result<ScheduleView, ApiError> {
    let stored = kept.schedule.job.as_str();
    let unread = |error| ApiError::new(&kinds::INTERNAL, format!("cannot read the job: {error}"));
    if sees_payloads(caller) {
        let job = serde_json::from_str::<Box<RawValue>>(stored).map_err(unread)?;
        return Ok(ScheduleView::new(kept, job, Vec::new()));
    }
    let mut body = serde_json::from_str::<NewJobBody>(stored).map_err(unread)?;
    let withheld = body.params.take().map(|_| "params".to_owned());
    let job = serde_json::value::to_raw_value(&body).map_err(unread)?;
    Ok(ScheduleView::new(kept, job, withheld.into_iter().collect()))
}
