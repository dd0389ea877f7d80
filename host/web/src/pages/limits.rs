//! The limits by key: how many jobs wait for each, and its fullest keys.

use askama::Template;
use axum::extract::{Path, Query};
use axum::response::Response;
use host_api::limit::{LimitView, RemovedLimitView};
use host_api::page::PageView;
use host_api::path;

use super::job::unknown_action;
use super::{ALL, Clicked, Live};
use crate::ask::{Ask, Problem};
use crate::form::Form;
use crate::format::shorten;
use crate::page::{Confirm, Frame, show as show_page, show_part};
use crate::same::Command;

/// The most that is shown of a key, in bytes.
const KEY_BYTES_MAX: usize = 300;

#[derive(Template)]
#[template(path = "limits.html")]
struct List<'a> {
    frame: Frame,
    limits: &'a [LimitView],
}

pub(crate) async fn list(ask: Ask, Query(part): Query<Live>) -> Result<Response, Problem> {
    let limits: PageView<LimitView> = ask.get(path::LIMITS, &ALL).await?;
    let frame = ask
        .frame("Limits", "/limits")
        .same_as("limit ls", path::LIMITS);
    Ok(show_part(&limits.items, part.from, |limits, next| List {
        frame: frame.followed_by("/limits", next),
        limits,
    }))
}

#[derive(Template)]
#[template(path = "limit.html")]
struct Detail {
    frame: Frame,
    limit: LimitView,
}

pub(crate) async fn show(ask: Ask, Path(name): Path<String>) -> Result<Response, Problem> {
    let mut limit: LimitView = ask.get(&path::with_name(path::LIMIT, &name), &ALL).await?;
    for key in limit.keys.iter_mut().flatten() {
        shorten(&mut key.key, KEY_BYTES_MAX);
    }
    let frame = ask.frame(limit.name.clone(), "/limits").same_as(
        Command::new("limit show").name(&limit.name),
        path::with_name(path::LIMIT, &limit.name),
    );
    Ok(show_page(&Detail { frame, limit }))
}

/// Removes a limit, after a question.
pub(crate) async fn act(
    ask: Ask,
    Path(name): Path<String>,
    Form(asked): Form<Clicked>,
) -> Result<Response, Problem> {
    if asked.action != "remove" {
        return Err(unknown_action());
    }
    let here = format!("/limits/{}", path::segment(&name));
    if !asked.sure {
        return Ok(show_page(&Confirm {
            frame: ask.frame(format!("Remove {name}?"), "/limits"),
            question: format!("Remove the limit {name}? Jobs no longer wait for it."),
            samples: Vec::new(),
            to: here.clone(),
            fields: vec![("action", asked.action)],
            typed: None,
            button: "Remove".to_owned(),
            back: here,
        }));
    }
    let _: RemovedLimitView = ask.delete(&path::with_name(path::LIMIT, &name)).await?;
    Ok(crate::see("/limits"))
}
