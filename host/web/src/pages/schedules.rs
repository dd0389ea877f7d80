//! The schedules: when each fires next and what became of its firings; setting, pausing, triggering and removing them.

use askama::Template;
use axum::extract::{Path, Query};
use axum::http::Method;
use axum::response::Response;
use host_api::new_job::NewJobBody;
use host_api::page::PageView;
use host_api::schedule::{
    ComingQuery, ComingView, FiringView, PatternsBody, RemovedScheduleView, ScheduleView,
    SchedulesQuery, TriggeredView,
};
use host_api::{path, pretty};
use serde::Deserialize;
use serde_json::{Value, json};

use super::job::unknown_action;
use super::{ALL, Clicked};
use crate::ask::{Ask, Problem};
use crate::cron;
use crate::form::Form;
use crate::format::{SHOWN_BYTES_MAX, cut, shorten};
use crate::page::{Confirm, Frame, show as show_page};
use crate::same::{Command, with_query};

/// How many schedules a page has.
const SCHEDULES_SHOWN: u32 = 50;

/// The most of a note, a reason or patterns that is shown, in bytes.
const TEXT_BYTES_MAX: usize = 500;

/// How many coming times are shown.
const COMING_SHOWN: u32 = 5;

#[derive(Template)]
#[template(path = "schedules.html")]
struct List {
    frame: Frame,
    schedules: Vec<ScheduleView>,
    next: Option<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct ScheduleListQuery {
    cursor: Option<String>,
}

pub(crate) async fn list(
    ask: Ask,
    Query(asked): Query<ScheduleListQuery>,
) -> Result<Response, Problem> {
    let query = SchedulesQuery {
        limit: Some(SCHEDULES_SHOWN),
        cursor: asked.cursor,
    };
    let schedules: PageView<ScheduleView> = ask.get(path::SCHEDULES, &query).await?;
    let next = schedules.next_cursor.map(|cursor| {
        let cursor = serde_urlencoded::to_string([("cursor", cursor)]);
        format!("/schedules?{}", cursor.unwrap_or_default())
    });
    Ok(show_page(&List {
        frame: ask
            .frame("Schedules", "/schedules")
            .same_as("schedule ls", with_query(path::SCHEDULES, &query)),
        schedules: schedules.items,
        next,
    }))
}

#[derive(Template)]
#[template(path = "schedule.html")]
struct Detail {
    frame: Frame,
    schedule: ScheduleView,
    /// The job that it enqueues, laid out.
    job: String,
    coming: Vec<ComingView>,
    firings: Vec<FiringView>,
}

pub(crate) async fn show(ask: Ask, Path(name): Path<String>) -> Result<Response, Problem> {
    let schedule: ScheduleView = ask
        .get(&path::with_name(path::SCHEDULE, &name), &ALL)
        .await?;
    let count = ComingQuery {
        count: Some(COMING_SHOWN),
    };
    let coming: PageView<ComingView> = ask
        .get(&path::with_name(path::SCHEDULE_NEXT, &name), &count)
        .await?;
    let mut firings: PageView<FiringView> = ask
        .get(&path::with_name(path::SCHEDULE_FIRINGS, &name), &ALL)
        .await?;
    for reason in firings.items.iter_mut().filter_map(|it| it.reason.as_mut()) {
        shorten(reason, TEXT_BYTES_MAX);
    }
    let job = pretty::json(schedule.schedule.job.get());
    let frame = ask.frame(schedule.name.clone(), "/schedules").same_as(
        Command::new("schedule show").name(&schedule.name),
        path::with_name(path::SCHEDULE, &schedule.name),
    );
    Ok(show_page(&Detail {
        frame,
        job: cut(&job, SHOWN_BYTES_MAX).0.to_owned(),
        schedule,
        coming: coming.items,
        firings: firings.items,
    }))
}

/// Returns when a schedule fires, as far as there is room for it.
pub(crate) fn when(schedule: &ScheduleView) -> String {
    let mut words = schedule.schedule.when_in_words();
    shorten(&mut words, TEXT_BYTES_MAX);
    words
}

/// The same in words that a reader need not decode, if it fires at usual times.
pub(crate) fn when_in_words(schedule: &ScheduleView) -> String {
    let pattern = match &schedule.schedule.when.cron {
        Some(PatternsBody::One(pattern)) => cron::in_words(pattern),
        _ => None,
    };
    let Some(mut words) = pattern else {
        return when(schedule);
    };
    if let Some(zone) = &schedule.schedule.time_zone {
        words = format!("{words}, {zone}");
    }
    words
}

/// Returns the handler of a schedule's job.
pub(crate) fn handler(schedule: &ScheduleView) -> String {
    let job = serde_json::from_str::<NewJobBody>(schedule.schedule.job.get());
    job.map(|job| job.handler).unwrap_or_default()
}

pub(crate) async fn act(
    ask: Ask,
    Path(name): Path<String>,
    Form(asked): Form<Clicked>,
) -> Result<Response, Problem> {
    let here = format!("/schedules/{}", path::segment(&name));
    let route = match asked.action.as_str() {
        "pause" => path::SCHEDULE_PAUSE,
        "resume" => path::SCHEDULE_RESUME,
        "trigger" => {
            let route = path::with_name(path::SCHEDULE_TRIGGER, &name);
            let TriggeredView { jobs } = ask.post(&route, &ALL, &json!({})).await?;
            let job = jobs.first().map(|job| format!("/jobs/{job}"));
            return Ok(crate::see(&job.unwrap_or(here)));
        }
        "remove" if !asked.sure => {
            return Ok(show_page(&Confirm {
                frame: ask.frame(format!("Remove {name}?"), "/schedules"),
                question: format!("Remove the schedule {name}? The jobs it has enqueued stay."),
                samples: Vec::new(),
                to: here.clone(),
                fields: vec![("action", asked.action)],
                typed: None,
                button: "Remove".to_owned(),
                back: here,
            }));
        }
        "remove" => {
            let route = path::with_name(path::SCHEDULE, &name);
            let _: RemovedScheduleView = ask.delete(&route).await?;
            return Ok(crate::see("/schedules"));
        }
        _ => return Err(unknown_action()),
    };
    let _: Value = ask
        .post(&path::with_name(route, &name), &ALL, &json!({}))
        .await?;
    Ok(crate::see(&here))
}

/// The body of the form for a new schedule.
#[derive(Default, Deserialize)]
#[serde(default)]
pub(crate) struct New {
    name: String,
    handler: String,
    queue: String,
    params: String,
    cron: String,
    every: String,
    time_zone: String,
}

/// Sets a new schedule.
pub(crate) async fn set(ask: Ask, Form(new): Form<New>) -> Result<Response, Problem> {
    let given = |text: &str| Some(text.trim().to_owned()).filter(|text| !text.is_empty());
    let name = given(&new.name).unwrap_or_default();
    let route = path::with_name(path::SCHEDULE, &name);
    let refused = |detail: String| {
        let next = "Go back and correct it.";
        Problem::bad_request("No schedule was set", detail, next)
    };
    let there = ask.get::<Value>(&route, &ALL).await;
    if there.is_ok() {
        return Err(refused(format!("a schedule is named {name} already")));
    }
    let text = given(&new.params).unwrap_or_else(|| "null".to_owned());
    let params = serde_json::value::RawValue::from_string(text)
        .map_err(|error| refused(format!("params: {error}")))?;
    let job = json!({"handler": new.handler.trim(), "queue": given(&new.queue), "params": params});
    let when = json!({"cron": given(&new.cron), "every": given(&new.every)});
    let schedule = json!({"when": when, "time_zone": given(&new.time_zone), "job": job});
    let body = Some(("application/json", schedule.to_string().into_bytes()));
    let _: Value = ask.ask(Method::PUT, &route, &ALL, body).await?;
    Ok(crate::see(&format!("/schedules/{}", path::segment(&name))))
}
