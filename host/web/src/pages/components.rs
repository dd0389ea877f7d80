//! The components and their revisions, and going back to one.

use askama::Template;
use axum::extract::Path;
use axum::response::Response;
use host_api::component::{ComponentView, DeployedView, RevisionView, RollbackBody};
use host_api::page::PageView;
use host_api::path;

use super::job::unknown_action;
use super::{ALL, Clicked};
use crate::ask::{Ask, Problem};
use crate::form::Form;
use crate::page::{Confirm, Frame, show as show_page};

#[derive(Template)]
#[template(path = "components.html")]
struct List {
    frame: Frame,
    revisions: Vec<RevisionView>,
}

pub(crate) async fn list(ask: Ask) -> Result<Response, Problem> {
    let revisions: PageView<RevisionView> = ask.get(path::COMPONENTS, &ALL).await?;
    Ok(show_page(&List {
        frame: ask
            .frame("Components", "/components")
            .same_as("host component ls", path::COMPONENTS),
        revisions: revisions.items,
    }))
}

#[derive(Template)]
#[template(path = "component.html")]
struct Detail {
    frame: Frame,
    component: ComponentView,
}

pub(crate) async fn show(ask: Ask, Path(name): Path<String>) -> Result<Response, Problem> {
    let component: ComponentView = ask.get(&path::of(path::COMPONENT, &name), &ALL).await?;
    let frame = ask
        .frame(component.component.clone(), "/components")
        .same_as(
            format!("host component show {}", component.component),
            path::of(path::COMPONENT, &component.component),
        );
    Ok(show_page(&Detail { frame, component }))
}

/// Goes back to a revision, after a question.
pub(crate) async fn act(
    ask: Ask,
    Path(name): Path<String>,
    Form(asked): Form<Clicked>,
) -> Result<Response, Problem> {
    let (Ok(revision), "rollback") = (asked.value.parse(), asked.action.as_str()) else {
        return Err(unknown_action());
    };
    let here = format!("/components/{}", path::segment(&name));
    if !asked.sure {
        let question = format!(
            "Execute new attempts of {name} with revision {revision}? Running attempts keep the revision they started with."
        );
        return Ok(show_page(&Confirm {
            frame: ask.frame(format!("Roll {name} back?"), "/components"),
            question,
            samples: Vec::new(),
            to: here.clone(),
            fields: vec![("action", asked.action), ("value", asked.value)],
            typed: None,
            button: format!("Go to revision {revision}"),
            back: here,
        }));
    }
    let body = RollbackBody {
        revision,
        force: false,
    };
    let _done: DeployedView = ask
        .post(&path::of(path::COMPONENT_ROLLBACK, &name), &ALL, &body)
        .await?;
    Ok(crate::see(&here))
}
