//! What of the host a caller may see. What is out of its scope looks like what does not exist.

use std::collections::BTreeMap;

use host_api::attempt::{AttemptView, FailureView};
use host_api::depends_on::DependsOnBody;
use host_api::job::JobView;
use host_core::access::{Object, Principal, Scope, Verb};
use host_core::id::JobId;
use host_core::job::HANDLER_WIRE;
use host_core::name::Name;
use host_http::gate::Caller;
use host_http::refusal::Refusal;

use super::Shared;
use super::error::ApiError;

/// Returns the scope of a caller.
pub(super) fn scope(caller: &Caller) -> &Scope {
    &caller.principal.scope
}

/// Returns whether a caller may see a job that exists.
pub(super) async fn sees_job(
    shared: &Shared,
    caller: &Caller,
    id: JobId,
) -> Result<bool, ApiError> {
    if scope(caller).is_all() {
        return Ok(true);
    }
    let job = shared.read(move |reader| reader.job(id)).await?;
    Ok(job.is_some_and(|job| scope(caller).has((&job.lifecycle).into())))
}

/// Returns whether a caller may see a queue.
pub(super) fn sees_queue(caller: &Caller, queue: &Name) -> bool {
    scope(caller).has(Object::Queue(queue.as_str()))
}

/// Returns whether a caller may see a handler of our cells.
pub(super) fn sees_handler(caller: &Caller, handler: &Name) -> bool {
    scope(caller).has(Object::Handler(None, handler.as_str()))
}

/// Returns whether a caller may see what jobs carry.
pub(super) fn sees_payloads(caller: &Caller) -> bool {
    caller.principal.verbs.has(Verb::ReadPayload)
}

/// Returns whether a caller may see the params, the result and the failure of a job that came in over a wire: of every job,
/// or because it has enqueued this one itself. What handlers enqueue for it may tell what it must not know.
pub(super) fn sees_payload_of(caller: &Caller, wire: &str, created_by: Option<&str>) -> bool {
    let Principal { name, verbs, .. } = &*caller.principal;
    let is_own = !name.is_empty() && created_by == Some(name) && wire != HANDLER_WIRE;
    sees_payloads(caller) || is_own && verbs.has(Verb::ReadOwn)
}

/// Returns whether a caller may see the params, the result and the failure of a job. False if there is no such job.
pub(super) async fn sees_payload_of_job(
    shared: &Shared,
    caller: &Caller,
    id: JobId,
) -> Result<bool, ApiError> {
    let found = shared.read(move |reader| reader.job(id)).await?;
    Ok(found.is_some_and(|job| {
        let created_by = job.payload.origin.as_ref().map(|origin| &*origin.principal);
        sees_payload_of(caller, &job.payload.wire, created_by)
    }))
}

/// Refuses a caller that lacks a verb beside that of the route.
pub(super) fn needs(caller: &Caller, verb: Verb) -> Result<(), ApiError> {
    if caller.principal.verbs.has(verb) {
        return Ok(());
    }
    Err(Refusal::Forbidden { verb }.into())
}

/// Leaves out what the caller may not see of a job that it may see.
pub(super) async fn shown_to(
    shared: &Shared,
    caller: &Caller,
    mut view: JobView,
) -> Result<JobView, ApiError> {
    if !sees_payload_of(caller, &view.wire, view.created_by.as_deref()) {
        hide_payload(&mut view);
    }
    if scope(caller).is_all() {
        return Ok(view);
    }
    let all = view.depends_on.as_ref().map_or(0, Vec::len);
    view.depends_on = seen_of(shared, caller, view.depends_on.take(), DependsOnBody::job).await?;
    if view.depends_on.as_ref().map_or(0, Vec::len) < all {
        withhold(&mut view, "depends_on");
        // The reason names jobs that it waits for.
        if view.waits_because.take().is_some() {
            withhold(&mut view, "waits_because");
        }
    }
    let inputs = view.inputs.take();
    view.inputs = seen_of_names(shared, caller, &mut view, "inputs", inputs).await?;
    let files = view.files.take();
    let is_upload = |from: &String| !from.contains('/');
    let (uploads, of_jobs): (BTreeMap<_, _>, _) = files
        .into_iter()
        .flatten()
        .partition(|(_, from)| is_upload(from));
    let mut files = seen_of_names(shared, caller, &mut view, "files", Some(of_jobs)).await?;
    if !uploads.is_empty() {
        files.get_or_insert_default().extend(uploads);
    }
    view.files = files;
    view.dependents = seen_of(shared, caller, view.dependents.take(), String::as_str).await?;
    Ok(view)
}

/// Returns those entries whose value begins with a job that a caller may see, and says whether some are left out.
async fn seen_of_names(
    shared: &Shared,
    caller: &Caller,
    view: &mut JobView,
    part: &str,
    entries: Option<BTreeMap<String, String>>,
) -> Result<Option<BTreeMap<String, String>>, ApiError> {
    fn job((_, from): &(String, String)) -> &str {
        from.split('/').next().unwrap_or_default()
    }
    let all = entries.as_ref().map_or(0, BTreeMap::len);
    let entries = entries.map(|it| it.into_iter().collect());
    let seen: Option<BTreeMap<_, _>> = seen_of(shared, caller, entries, job)
        .await?
        .map(|it| it.into_iter().collect());
    if seen.as_ref().map_or(0, BTreeMap::len) < all {
        withhold(view, part);
    }
    Ok(seen)
}

/// Returns those items that name jobs which a caller may see.
async fn seen_of<T>(
    shared: &Shared,
    caller: &Caller,
    items: Option<Vec<T>>,
    job: fn(&T) -> &str,
) -> Result<Option<Vec<T>>, ApiError> {
    let mut seen = Vec::new();
    for item in items.unwrap_or_default() {
        let id = job(&item).parse().ok();
        if let Some(id) = id
            && sees_job(shared, caller, id).await?
        {
            seen.push(item);
        }
    }
    Ok(Some(seen).filter(|seen| !seen.is_empty()))
}

/// Names a part that the view of a job leaves out.
fn withhold(view: &mut JobView, part: &str) {
    if !view.withheld.iter().any(|it| it == part) {
        view.withheld.push(part.to_owned());
    }
}

/// Leaves out what a job carries, and says so.
pub(super) fn hide_payload(view: &mut JobView) {
    let params = view.params.take().map(|_| "params");
    let result = view.result.take().map(|_| "result");
    let failure = view.failure.as_mut().map(hide_details);
    let kept = std::mem::take(&mut view.artifacts);
    let artifacts = (!kept.is_empty()).then_some("artifacts");
    for part in [params, result, artifacts, failure].into_iter().flatten() {
        withhold(view, part);
    }
}

/// Leaves out what an attempt says of its failure, and says so.
pub(super) fn hide_failure(view: &mut AttemptView) {
    let withheld = view.failure.as_mut().map(hide_details);
    view.withheld = withheld.map(str::to_owned).into_iter().collect();
}

/// Leaves out what a failure says beyond its kind. Returns its name.
fn hide_details(failure: &mut FailureView) -> &'static str {
    failure.message = String::new();
    failure.user_kind = None;
    failure.code = None;
    failure.details = None;
    failure.stack = None;
    "failure"
}
