//! The OpenAPI document, made of the routes of `routes.rs` and of the wires.

use axum::extract::State;
use axum::http::HeaderValue;
use axum::http::header::CONTENT_TYPE;
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use host_api::audit::RecordView;
use host_api::event::{GapView, ProgressEventView};
use host_api::path;
use host_http::problem::ProblemView;
use host_http::route::{Description, Route};
use utoipa::OpenApi;
use utoipa::openapi::path::Operation;
use utoipa::openapi::schema::ArrayItems;
use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder, Schema};

use super::{Shared, wire_routes};

/// The document before the routes are added.
#[derive(OpenApi)]
#[openapi(
    info(
        title = "host",
        description = "Enqueues jobs, watches and steers them, and deploys the components that execute them."
    ),
    components(schemas(RecordView, ProblemView<'static>, ProgressEventView<'static>, GapView))
)]
struct Document;

/// Describes a body that may be absent by its own schema: it is left out, not `null`.
fn leave_out_null(schema: &mut Option<RefOr<Schema>>) {
    if let Some(RefOr::T(Schema::OneOf(one))) = schema
        && let [_, body @ RefOr::Ref(_)] | [body @ RefOr::Ref(_), _] = &one.items[..]
    {
        *schema = Some(body.clone());
    }
}

/// The beginning of the names of schemas of pages. What follows is the name of the items' schema.
const PAGE: &str = "PageView_";

/// Completes the document: pages refer to the schemas of their items, so that clients have one type of each.
fn share_items(document: &mut utoipa::openapi::OpenApi) {
    let schemas = document
        .components
        .iter_mut()
        .flat_map(|it| &mut it.schemas);
    for (name, schema) in schemas {
        if let Some(item) = name.strip_prefix(PAGE)
            && let RefOr::T(Schema::Object(page)) = schema
            && let Some(RefOr::T(Schema::Array(items))) = page.properties.get_mut("items")
        {
            items.items = ArrayItems::RefOrSchema(Box::new(Ref::from_schema_name(item).into()));
        }
    }
}

/// Completes each operation: an id that no other has, made of its name and its tag, a description of
/// each answer, and a problem document for refusals that it does not describe itself.
fn complete(document: &mut utoipa::openapi::OpenApi) {
    let refusal = ResponseBuilder::new()
        .description("Refused")
        .content(
            "application/problem+json",
            ContentBuilder::new()
                .schema(Some(Ref::from_schema_name("Problem")))
                .build(),
        )
        .build();
    for path in document.paths.paths.values_mut() {
        let methods: [&mut Option<Operation>; 4] = [
            &mut path.get,
            &mut path.put,
            &mut path.post,
            &mut path.delete,
        ];
        for operation in methods.into_iter().flatten() {
            let tag = operation.tags.iter().flatten().next();
            if let Some((id, tag)) = operation.operation_id.as_mut().zip(tag) {
                *id = format!("{id}_{tag}");
            }
            if let Some(RefOr::T(body)) = &mut operation.request_body {
                for content in body.content.values_mut() {
                    if let RefOr::T(content) = content {
                        leave_out_null(&mut content.schema);
                    }
                }
            }
            let responses = &mut operation.responses.responses;
            for response in responses.values_mut() {
                if let RefOr::T(response) = response
                    && response.description.is_empty()
                {
                    "Done".clone_into(&mut response.description);
                }
            }
            let default = responses.entry("default".to_owned());
            default.or_insert_with(|| refusal.clone().into());
        }
    }
}

/// Renders the document of the API's own routes and those of the wires.
pub(super) fn render(own: &[Route<Shared>]) -> Bytes {
    let mut document = Document::openapi();
    let own = Description::new(own, &[]);
    for part in wire_routes::descriptions().into_iter().chain([own]) {
        document.merge(part.document);
    }
    complete(&mut document);
    share_items(&mut document);
    Bytes::from(document.to_json().unwrap_or_default())
}

/// Shows this document.
#[utoipa::path(
    get, path = path::OPENAPI, tag = "host",
    responses((status = 200, description = "OpenAPI"))
)]
pub(super) async fn document(State(shared): State<Shared>) -> Response {
    let json = HeaderValue::from_static("application/json");
    ([(CONTENT_TYPE, json)], shared.document.clone()).into_response()
}
