//! Components: deploying, rolling back, removing and listing them.

use axum::Json;
use axum::body::Body;
use axum::extract::multipart::Field;
use axum::extract::{DefaultBodyLimit, FromRequest as _, Multipart, Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use host_api::component::{
    ComponentView, DeployForm, DeployQuery, DeployedView, KeptView, LimitChangeView, ReadinessView,
    RemovedHandlerView, RemovedView, RevisionView, RollbackBody,
};
use host_api::page::PageView;
use host_api::path;
use host_cells::deploy::examine::{COMPONENT_BYTES_MAX, Component};
use host_cells::deploy::manifest::{self, MANIFEST_BYTES_MAX};
use host_cells::deploy::trust::SIGNATURE_BYTES_MAX;
use host_core::access::Verb;
use host_core::encoding;
use host_core::name::Name;
use host_core::time::Time;
use host_engine::Rejection;
use host_engine::component::tables::{read_deployed, read_revisions};
use host_engine::component::{
    ComponentRefusal, Digest, LABEL_CHARS_MAX, Manifest, NOTE_CHARS_MAX, Release,
};
use host_http::budget::ByteBudget;
use host_http::extract::{InPath, InQuery, small_body};
use host_http::gate::Caller;
use host_http::guard::media_type;
use host_http::json::with_nearest;
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::actor::Actor;
use super::enqueue::origin_of;
use super::error::ApiError;
use super::ports::{Consent, Deployed, DeployedBy};
use super::problem::kinds;
use super::scoped::needs;
use super::{Shared, one_line};

/// The largest body that deploys, in bytes: component, manifest and what separates them.
const DEPLOY_BYTES_MAX: usize = COMPONENT_BYTES_MAX + (1 << 20);

/// How many deploys are carried out concurrently. Others wait with their body, within the memory of deploys. Bodies are
/// read before, so stalled uploads delay no others.
const DEPLOYS_MAX: usize = 2;

/// Within what time of each other two principals deploy a component with new grants, in milliseconds: a day.
const DAY_MS: i64 = 24 * 3_600_000;

/// The media types of bodies that deploy.
pub(super) const DEPLOY_MEDIA_TYPES: &[&str] = &[FORM, COMPONENT];
const FORM: &str = "multipart/form-data";
const COMPONENT: &str = "application/wasm";

async fn deployed_view(shared: &Shared, deployed: Deployed) -> Result<DeployedView, ApiError> {
    let revision = &deployed.revision;
    let nodes = readiness(shared, &revision.component, revision.revision).await?;
    let ready = nodes.iter().filter(|node| node.component == "ready");
    let removed = deployed.removed.into_iter().map(|it| RemovedHandlerView {
        handler: it.handler.into(),
        jobs: it.jobs,
    });
    let changed = deployed
        .limits_changed
        .into_iter()
        .map(|it| LimitChangeView {
            handler: it.handler.into(),
            limit: it.limit.to_owned(),
            before: it.before,
            after: it.after,
        });
    Ok(DeployedView {
        nodes_ready: ready.count(),
        nodes_all: nodes.len(),
        revision: revision.into(),
        unchanged: deployed.unchanged,
        handlers_removed: removed.collect(),
        grants_added: deployed.grants_added,
        grants_removed: deployed.grants_removed,
        limits_changed: changed.collect(),
        stubbed: deployed.stubbed,
    })
}

/// Returns whether each node that has not gone can run a revision of a component.
async fn readiness(
    shared: &Shared,
    component: &Name,
    revision: u32,
) -> Result<Vec<ReadinessView>, ApiError> {
    let nodes = shared.api.nodes.list().await?;
    let living = nodes.iter().filter(|node| !node.is_lost());
    Ok(living
        .map(|node| ReadinessView::new(node, component, revision))
        .collect())
}

/// Lists the current revisions of all components.
#[utoipa::path(
    get, path = path::COMPONENTS, tag = "components",
    responses((status = 200, body = PageView<RevisionView>))
)]
pub(super) async fn list(
    State(shared): State<Shared>,
) -> Result<Json<PageView<RevisionView>>, ApiError> {
    let components = shared.read(read_deployed).await?;
    let items = components.iter().map(RevisionView::from);
    Ok(Json(PageView::whole(items.collect())))
}

/// Shows all revisions of a component.
#[utoipa::path(
    get, path = path::COMPONENT, tag = "components",
    params(("name" = String, Path, description = "The component's name")),
    responses((status = 200, body = ComponentView))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    InPath(name): InPath<Name>,
) -> Result<Json<ComponentView>, ApiError> {
    let component = name.clone();
    let read = shared.read(move |reader| read_revisions(reader, &component));
    let (revisions, current) = read.await?;
    if revisions.is_empty() {
        return Err(Rejection::Component(ComponentRefusal::Unknown(name)).into());
    }
    let nodes = readiness(&shared, &name, current).await?;
    let kept = revisions.into_iter().map(|revision| KeptView {
        revision: (&revision).into(),
        current: revision.revision == current,
        manifest: revision.manifest,
    });
    Ok(Json(ComponentView {
        component: name.into(),
        current,
        revisions: kept.collect(),
        nodes,
    }))
}

/// The memory of deploys, apart from that of other requests.
#[derive(Debug)]
pub(super) struct Deploys {
    bodies: ByteBudget,
    turns: Semaphore,
}

impl Default for Deploys {
    fn default() -> Self {
        Self {
            bodies: ByteBudget::default(),
            turns: Semaphore::new(DEPLOYS_MAX),
        }
    }
}

/// Deploys a component as the current revision.
#[utoipa::path(
    put, path = path::COMPONENT, tag = "components",
    params(("name" = String, Path, description = "The component's name"), DeployQuery),
    request_body(
        content = DeployForm<'static>,
        content_type = "multipart/form-data",
        description = "A body of the type `application/wasm` is the component alone, without a manifest."
    ),
    responses(
        (status = 201, body = DeployedView, description = "A new revision"),
        (status = 200, body = DeployedView, description = "This revision was already current"),
    )
)]
pub(super) async fn deploy(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
    InQuery(query): InQuery<DeployQuery>,
    request: Request,
) -> Result<Response, ApiError> {
    let (parts, body) = request.into_parts();
    let bodies = &shared.deploys.bodies;
    let read = bodies.read(&parts, body, DEPLOY_BYTES_MAX).await?;
    // Not before: a client that still sends might not read the answer.
    for (field, text, chars_max) in [
        ("label", &query.label, LABEL_CHARS_MAX),
        ("note", &query.note, NOTE_CHARS_MAX),
    ] {
        let text = text.as_deref();
        let checked = text.map(|text| one_line::check(field, text, chars_max));
        let wrong = |detail| ApiError::new(&kinds::INVALID_QUERY, detail);
        checked.transpose().map_err(wrong)?;
    }
    if query.accept_grants {
        needs(&caller, Verb::Grant)?;
    }
    // Compiling may take minutes. What waits for it must not hold the memory of other requests.
    let stopping = &shared.api.stopping;
    let turn = stopping
        .run_until_cancelled(shared.deploys.turns.acquire())
        .await
        .and_then(Result::ok)
        .filter(|_| !stopping.is_cancelled());
    let _guard = turn.ok_or_else(|| ApiError::new(&kinds::STOPPING, "nothing was deployed"))?;
    let kind = media_type(&parts.headers).unwrap_or_default();
    let (component, manifest) = if kind.eq_ignore_ascii_case(COMPONENT) {
        if read.bytes.len() > COMPONENT_BYTES_MAX {
            return Err(too_large("component", COMPONENT_BYTES_MAX));
        }
        let (bytes, signature) = (read.bytes.to_vec(), None);
        (Component { bytes, signature }, Manifest::default())
    } else {
        let body = Body::from(read.bytes.clone());
        let mut request = Request::from_parts(parts, body);
        // The body is bounded and read already.
        DefaultBodyLimit::disable().apply(&mut request);
        form(request).await?
    };
    if let Some(other) = manifest.name.as_ref().filter(|other| **other != name) {
        let detail = format!("the manifest names the component {other}, the path names {name}");
        return Err(ApiError::new(&kinds::MANIFEST_INVALID, detail));
    }
    drop(read);
    let consent = consent(&shared, query.accept_grants, query.force);
    let digest = Digest(Sha256::digest(&component.bytes).into());
    let manifest_text = serde_json::to_vec(&manifest).map_err(|error| {
        let detail = format!("cannot write the manifest as JSON: {error}");
        ApiError::new(&kinds::INTERNAL, detail)
    })?;
    let manifest_digest = Digest(Sha256::digest(&manifest_text).into());
    let by = DeployedBy {
        note: actor
            .note(format!("component {name}"))
            .detail(format!("digest {digest}, manifest {manifest_digest}")),
        origin: origin_of(&caller.principal),
        release: Release {
            by: actor.name().to_owned(),
            label: query.label,
            note: query.note,
        },
    };
    let port = &shared.api.deployer;
    let deploying = port.deploy(name, manifest, component, consent, by);
    // The change continues without its client, as long as the host runs.
    let deployed = stopping.run_until_cancelled(deploying).await;
    let unknown = "whether the component was deployed is unknown";
    let deployed = deployed.ok_or_else(|| ApiError::new(&kinds::STOPPING, unknown))??;
    let status = if deployed.unchanged {
        StatusCode::OK
    } else {
        StatusCode::CREATED
    };
    let view = deployed_view(&shared, deployed).await?;
    Ok((status, Json(view)).into_response())
}

/// Makes what a principal accepts that may accept this.
fn consent(shared: &Shared, new_grants: bool, unfit_jobs: bool) -> Consent {
    let day_ago = || Time(shared.api.clock.now().0.saturating_sub(DAY_MS));
    Consent {
        new_grants,
        tried_since: shared.api.two_people_for_grants.then(day_ago),
        unfit_jobs,
    }
}

/// Goes back to an earlier revision.
#[utoipa::path(
    post, path = path::COMPONENT_ROLLBACK, tag = "components",
    params(("name" = String, Path, description = "The component's name")),
    request_body = RollbackBody,
    responses((status = 200, body = DeployedView))
)]
pub(super) async fn rollback(
    State(shared): State<Shared>,
    caller: Caller,
    actor: Actor,
    InPath(name): InPath<Name>,
    request: Request,
) -> Result<Json<DeployedView>, ApiError> {
    let body: RollbackBody = small_body(&shared.api.bodies, request).await?;
    let revision = body.revision;
    // They were accepted when the revision was deployed, and may have been taken away since.
    if body.accept_grants {
        needs(&caller, Verb::Grant)?;
    }
    let consent = consent(&shared, body.accept_grants, body.force);
    let detail = format!("to revision {revision}");
    let note = actor.note(format!("component {name}")).detail(detail);
    let port = &shared.api.deployer;
    let deployed = port.rollback(name, revision, consent, note).await?;
    deployed_view(&shared, deployed).await.map(Json)
}

/// Forgets a component that no job needs.
#[utoipa::path(
    delete, path = path::COMPONENT, tag = "components",
    params(("name" = String, Path, description = "The component's name")),
    responses((status = 200, body = RemovedView))
)]
pub(super) async fn remove(
    State(shared): State<Shared>,
    actor: Actor,
    InPath(name): InPath<Name>,
) -> Result<Json<RemovedView>, ApiError> {
    let note = actor.note(format!("component {name}")).detail("removed");
    shared.api.deployer.remove(name.clone(), note).await?;
    Ok(Json(RemovedView {
        component: name.into(),
        removed: true,
    }))
}

fn too_large(part: &str, bytes_max: usize) -> ApiError {
    let code = match part {
        "component" => &kinds::COMPONENT_TOO_LARGE,
        _ => &kinds::BODY_TOO_LARGE,
    };
    ApiError::new(code, format!("the {part} has more than {bytes_max} bytes"))
}

/// Reads the parts of a multipart body.
async fn form(request: Request) -> Result<(Component, Manifest), ApiError> {
    let broken = |text: String| ApiError::new(&kinds::INVALID_MULTIPART, text);
    let mut parts = Multipart::from_request(request, &())
        .await
        .map_err(|rejection| broken(rejection.body_text()))?;
    let (mut component, mut manifest, mut signature) = (None, None, None);
    while let Some(field) = parts
        .next_field()
        .await
        .map_err(|error| broken(error.body_text()))?
    {
        let name = field.name().unwrap_or_default().to_owned();
        let (slot, bytes_max) = match name.as_str() {
            "component" => (&mut component, COMPONENT_BYTES_MAX),
            "manifest" => (&mut manifest, MANIFEST_BYTES_MAX),
            "signature" => (&mut signature, SIGNATURE_BYTES_MAX),
            other => {
                let shown: String = other.chars().take(64).collect();
                return Err(broken(format!("unexpected part {shown:?}")));
            }
        };
        if slot.is_some() {
            return Err(broken(format!("the part {name} occurs twice")));
        }
        *slot = Some(part(field, &name, bytes_max).await?);
    }
    let bytes = component.ok_or_else(|| broken("missing the part component".to_owned()))?;
    let signature = signature.map(String::from_utf8).transpose();
    let signature = signature.map_err(|_| broken("the signature is not UTF-8".to_owned()))?;
    let manifest = manifest.map_or_else(|| Ok(Manifest::default()), |text| read_manifest(&text))?;
    Ok((Component { bytes, signature }, manifest))
}

async fn part(mut field: Field<'_>, name: &str, bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    let mut bytes = Vec::new();
    while let Some(chunk) = field
        .chunk()
        .await
        .map_err(|error| ApiError::new(&kinds::INVALID_MULTIPART, error.body_text()))?
    {
        if bytes.len() + chunk.len() > bytes_max {
            return Err(too_large(name, bytes_max));
        }
        bytes.extend_from_slice(&chunk);
    }
    Ok(bytes)
}

fn read_manifest(text: &[u8]) -> Result<Manifest, ApiError> {
    let invalid = |text: &str| ApiError::new(&kinds::MANIFEST_INVALID, text);
    let text = encoding::text(text.to_vec())
        .map_err(|other| invalid(&format!("the manifest cannot be read: {other}")))?;
    manifest::parse(&text).map_err(|error| invalid(&with_nearest(&error.to_string())))
}
