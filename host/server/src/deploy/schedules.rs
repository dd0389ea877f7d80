//! The schedules of a manifest. Their jobs are for handlers of the same component.

use std::collections::BTreeSet;

use host_api::new_job::{BatchPlanBody, JobBatchBody, NewJobBody};
use host_api::schedule::{ScheduleBody, may_be_scheduled};
use host_cells::compile::schema::{Budget, Schema};
use host_cells::deploy::manifest::ManifestError;
use host_core::handler::HandlerInfo;
use host_core::job::Origin;
use host_core::json::JsonText;
use host_core::name::Name;
use host_core::time::Time;
use host_engine::component::{Manifest, ScheduleSection};
use host_engine::schedule::{Schedule, Source};
use host_http::json::read_object;

/// Reads the schedules of a component's manifest, whose jobs run with the rights of `origin`.
pub(super) fn read(
    component: &Name,
    manifest: &Manifest,
    handlers: &[HandlerInfo],
    origin: Option<&Origin>,
    wall: Time,
) -> Result<Vec<Schedule>, ManifestError> {
    let mut names = BTreeSet::new();
    let mut read = |section: &ScheduleSection| {
        if !names.insert(section.name.clone()) {
            return Err("another schedule of the manifest has this name".to_owned());
        }
        let text = serde_json::to_string(&section.fields).map_err(|error| error.to_string())?;
        let body: ScheduleBody = read_object(text.as_bytes()).map_err(|error| error.to_string())?;
        let job: NewJobBody =
            read_object(body.job.get().as_bytes()).map_err(|error| error.at("job").to_string())?;
        may_be_scheduled(&job)?;
        fits(&job, handlers)?;
        let source = Source::Component(component.clone());
        let schedule =
            body.into_schedule(section.name.clone(), source, origin.cloned().map(Box::new))?;
        schedule.check(wall).map_err(|error| error.to_string())?;
        Ok(schedule)
    };
    let schedules = manifest.schedule.iter().map(|section| {
        read(section).map_err(|message| ManifestError::Schedule {
            name: section.name.clone(),
            message,
        })
    });
    schedules.collect()
}

/// Checks that the job is for one of these handlers, and that its params fit.
fn fits(job: &NewJobBody, handlers: &[HandlerInfo]) -> Result<(), String> {
    let find = |field: &str, wanted: &str| {
        let mut handlers = handlers.iter();
        let found = handlers.find(|it| it.name.as_str() == wanted);
        found.ok_or_else(|| {
            format!("job.{field}: must be a handler of this component, got {wanted}")
        })
    };
    let plan = job.batch.as_ref().and_then(JobBatchBody::plan);
    for (on, callback) in plan.into_iter().flat_map(BatchPlanBody::callbacks) {
        let field = format!("batch.{}.handler", on.as_str());
        find(&field, &callback.handler)?;
    }
    let handler = find("handler", &job.handler)?;
    // The schema was compiled when the component was described.
    let schema = handler.params_schema.as_ref().map(Schema::compile);
    let Some(Ok(schema)) = schema else {
        return Ok(());
    };
    let params = job.params.as_ref().map_or("null", |params| params.get());
    let checked = schema.check_text(&JsonText(params.to_owned()), &mut Budget::default());
    checked.map_err(|error| format!("job.params: {error}"))
}
