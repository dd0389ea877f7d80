//! The components and their revisions: deploying one, and going back to one.

use askama::Template;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest as _, Multipart, Path, Query, Request, State};
use axum::http::{Method, StatusCode};
use axum::response::{IntoResponse as _, Response};
use host_api::component::{
    ComponentView, DeployQuery, DeployedView, KeptView, RevisionView, RollbackBody,
};
use host_api::handler::GrantsView;
use host_api::page::PageView;
use host_api::path;
use host_core::hex::hex;
use sha2::{Digest as _, Sha256};

use super::job::unknown_action;
use super::{ALL, Clicked, Live};
use crate::ask::{Ask, Problem, Web};
use crate::form::Form;
use crate::format::{GRANTS_SHOWN, NAMES_SHOWN, PageBudget};
use crate::page::{Confirm, Frame, show as show_page, show_part, with_status};
use crate::same::Command;

#[derive(Template)]
#[template(path = "components.html")]
struct List<'a> {
    frame: Frame,
    revisions: &'a [RevisionView],
}

pub(crate) async fn list(ask: Ask, Query(part): Query<Live>) -> Result<Response, Problem> {
    let revisions: PageView<RevisionView> = ask.get(path::COMPONENTS, &ALL).await?;
    let frame = ask
        .frame("Components", "/components")
        .same_as("component ls", path::COMPONENTS);
    Ok(show_part(&revisions.items, part.from, |revisions, next| {
        List {
            frame: frame.followed_by("/components", next),
            revisions,
        }
    }))
}

/// How much of the page of a component has lines about grants, in bytes.
const GRANTS_BYTES: usize = 8 << 10;

#[derive(Template)]
#[template(path = "component.html")]
struct Detail<'a> {
    frame: Frame,
    component: &'a ComponentView,
    revisions: &'a [KeptView],
    /// What handlers of the current revision may access.
    grants: &'a [String],
}

/// Describes what handlers of the current revision may access, one line each.
fn grants(component: &ComponentView) -> Vec<String> {
    let current = component.revisions.iter().filter(|kept| kept.current);
    let handlers = current.flat_map(|kept| {
        let names = kept.revision.handlers.iter();
        names.filter_map(|name| Some((kept.manifest.grants(&name.parse().ok()?), name)))
    });
    let mut lines: Vec<String> = handlers
        .flat_map(|(grants, name)| {
            let lines = GrantsView::from(&grants).lines().into_iter();
            lines.map(move |line| format!("{name}: {line}"))
        })
        .collect();
    PageBudget(GRANTS_BYTES).take_grants(&mut lines);
    lines
}

pub(crate) async fn show(
    ask: Ask,
    Path(name): Path<String>,
    Query(part): Query<Live>,
) -> Result<Response, Problem> {
    let component: ComponentView = ask
        .get(&path::with_name(path::COMPONENT, &name), &ALL)
        .await?;
    let frame = ask
        .frame(component.component.clone(), "/components")
        .same_as(
            Command::new("component show").name(&component.component),
            path::with_name(path::COMPONENT, &component.component),
        );
    let here = format!("/components/{}", path::segment(&component.component));
    let grants = grants(&component);
    let all = &component.revisions;
    Ok(show_part(all, part.from, |revisions, next| Detail {
        frame: frame.followed_by(&here, next),
        component: &component,
        revisions,
        grants: &grants,
    }))
}

/// Goes back to a revision, after a question.
pub(crate) async fn act(
    ask: Ask,
    Path(name): Path<String>,
    Form(asked): Form<Clicked>,
) -> Result<Response, Problem> {
    let Ok(revision) = asked.value.parse() else {
        return Err(unknown_action());
    };
    let accept_grants = match asked.action.as_str() {
        ROLLBACK => false,
        ROLLBACK_WITH_GRANTS => true,
        _ => return Err(unknown_action()),
    };
    let here = format!("/components/{}", path::segment(&name));
    let confirm = |question: String, action: &str| {
        show_page(&Confirm {
            frame: ask.frame(format!("Roll {name} back?"), "/components"),
            question,
            samples: Vec::new(),
            to: here.clone(),
            fields: vec![
                ("action", action.to_owned()),
                ("value", asked.value.clone()),
            ],
            typed: None,
            button: format!("Go to revision {revision}"),
            back: here.clone(),
        })
    };
    if !asked.sure {
        let question = format!(
            "Execute new attempts of {name} with revision {revision}? Running attempts keep the revision they started with."
        );
        return Ok(confirm(question, ROLLBACK));
    }
    let body = RollbackBody {
        revision,
        force: false,
        accept_grants,
    };
    let route = path::with_name(path::COMPONENT_ROLLBACK, &name);
    let done: Result<DeployedView, Problem> = ask.post(&route, &ALL, &body).await;
    match done {
        Ok(_) => Ok(crate::see(&here)),
        Err(problem) if problem.code == GRANTS_NOT_ACCEPTED => {
            Ok(confirm(problem.detail, ROLLBACK_WITH_GRANTS))
        }
        Err(problem) => Err(problem),
    }
}

/// What forms of a component send: go to a revision, also if it has more grants.
const ROLLBACK: &str = "rollback";
const ROLLBACK_WITH_GRANTS: &str = "rollback-with-grants";

/// The largest upload, in bytes: the largest component and manifest, and what separates them.
const UPLOAD_BYTES_MAX: usize = 34 << 20;

/// What an upload has.
#[derive(Default)]
struct Upload {
    name: String,
    component: Bytes,
    manifest: Bytes,
    signature: Bytes,
    /// Set if its grants are accepted: those of the files with this digest.
    accepted: Option<String>,
    digest: String,
}

impl Upload {
    async fn read(web: &Web, request: Request) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let read = web
            .bodies
            .read(&parts, body, UPLOAD_BYTES_MAX)
            .await
            .map_err(|refusal| crate::render(&refusal))?;
        let mut request = Request::from_parts(parts, Body::from(read.bytes.clone()));
        // The body is bounded and read already.
        DefaultBodyLimit::disable().apply(&mut request);
        let broken = |text: String| {
            Problem::bad_request("Not deployed", text, "Load the page again.").into_response()
        };
        let mut parts = Multipart::from_request(request, &())
            .await
            .map_err(|error| broken(error.body_text()))?;
        let mut upload = Self::default();
        let mut shown = String::new();
        let mut is_accepted = false;
        while let Some(field) = parts
            .next_field()
            .await
            .map_err(|it| broken(it.body_text()))?
        {
            let name = field.name().unwrap_or_default().to_owned();
            let bytes = field.bytes().await.map_err(|it| broken(it.body_text()))?;
            let text = || String::from_utf8_lossy(&bytes).trim().to_owned();
            match name.as_str() {
                "name" => upload.name = text(),
                "component" => upload.component = bytes,
                "manifest" => upload.manifest = bytes,
                "signature" => upload.signature = bytes,
                "digest" => shown = text(),
                "accept" => is_accepted = true,
                _ => return Err(broken(format!("the form has no field {name:?}"))),
            }
        }
        let mut digest = Sha256::new();
        digest.update((upload.component.len() as u64).to_le_bytes());
        digest.update(&upload.component);
        digest.update(&upload.manifest);
        upload.digest = hex(&digest.finalize());
        upload.accepted = is_accepted.then_some(shown);
        Ok(upload)
    }
}

#[derive(Template)]
#[template(path = "deployed.html")]
struct Done {
    frame: Frame,
    deployed: DeployedView,
}

#[derive(Template)]
#[template(path = "refused.html")]
struct RefusalPage {
    frame: Frame,
    detail: String,
    name: String,
    digest: String,
}

/// Deploys what is uploaded. New grants are shown first, and accepted for the same files only.
pub(crate) async fn deploy(
    State(web): State<Web>,
    ask: Ask,
    request: Request,
) -> Result<Response, Response> {
    let upload = Upload::read(&web, request).await?;
    let is_accepted = upload.accepted.as_ref() == Some(&upload.digest);
    let query = DeployQuery {
        accept_grants: is_accepted,
        ..DeployQuery::default()
    };
    let mut parts = vec![("component", &upload.component[..])];
    for (name, bytes) in [
        ("manifest", &upload.manifest),
        ("signature", &upload.signature),
    ] {
        // A file that was not chosen is empty.
        if !bytes.is_empty() {
            parts.push((name, &bytes[..]));
        }
    }
    let body = host_api::multipart::Multipart::new(&parts);
    let (route, kind) = (path::with_name(path::COMPONENT, &upload.name), body.kind());
    let body = Some((kind.as_str(), body.into_body()));
    match ask.ask(Method::PUT, &route, &query, body).await {
        Ok(deployed) => Ok(show_page(&Done {
            frame: ask.frame(format!("{} is deployed", upload.name), "/components"),
            deployed,
        })),
        Err(problem) if problem.code == GRANTS_NOT_ACCEPTED => {
            let others = if upload.accepted.is_some() {
                "these files differ from those that were shown: "
            } else {
                ""
            };
            let page = RefusalPage {
                frame: ask.frame("New grants", "/components"),
                detail: format!("{others}{}", problem.detail),
                name: upload.name,
                digest: upload.digest,
            };
            Ok(with_status(StatusCode::CONFLICT, &page))
        }
        Err(problem) => Err(problem.into_response()),
    }
}

/// The code of the refusal of a deploy whose grants are not accepted.
const GRANTS_NOT_ACCEPTED: &str = "grants_not_accepted";
