//! The body of a form, read within the limits of all bodies.

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;

use crate::ask::{Problem, Web};
use crate::render;

/// The largest form, in bytes: the params of a job, escaped.
const FORM_BYTES_MAX: usize = 2 << 20;

/// The body of a form.
pub(crate) struct Form<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequest<Web> for Form<T> {
    type Rejection = Response;

    /// Cancel safe: data that was read is dropped.
    async fn from_request(request: Request, web: &Web) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let read = web
            .bodies
            .read(&parts, body, FORM_BYTES_MAX)
            .await
            .map_err(|refusal| render(&refusal))?;
        serde_urlencoded::from_bytes(&read.bytes)
            .map(Self)
            .map_err(|_| {
                let detail = "the form lacks a field of this page";
                Problem::bad_request("Nothing was done", detail, "Load the page again.")
                    .into_response()
            })
    }
}
