//! Extracts the path, query and body of requests, for handlers that answer errors with problem
//! documents.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::rejection::QueryRejection;
use axum::extract::{FromRequestParts, Path, Query, Request};
use axum::http::request::Parts;
use host_core::json::words;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use utoipa::ToSchema;

use crate::budget::ByteBudget;
use crate::json::{self, with_nearest};
use crate::problem::{Problem, kinds};

/// The largest body of a request with few fields, in bytes.
pub(crate) const SMALL_BODY_BYTES_MAX: usize = 64 << 10;

/// A name, the only parameter in the path.
#[derive(Debug)]
pub struct InPath<T>(pub T);

/// A text, the only parameter in the path.
#[derive(Debug)]
pub struct TextInPath(pub String);

/// Two texts, the only parameters in the path.
#[derive(Debug)]
pub struct TextsInPath(pub String, pub String);

/// The query string, parsed as `T`.
#[derive(Debug)]
pub struct InQuery<T>(pub T);

/// A body without fields.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct EmptyBody {}

impl<S: Send + Sync, T: FromStr<Err: Display>> FromRequestParts<S> for InPath<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let TextInPath(text) = TextInPath::from_request_parts(parts, state).await?;
        let name = text.parse().map(Self);
        name.map_err(|error| Problem::new(&kinds::INVALID_NAME, error.to_string()))
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TextInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<String>::from_request_parts(parts, state).await {
            Ok(Path(text)) => Ok(Self(text)),
            Err(_) => Err(Problem::new(&kinds::INVALID_NAME, "the path is not UTF-8")),
        }
    }
}

impl<S: Send + Sync> FromRequestParts<S> for TextsInPath {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        match Path::<(String, String)>::from_request_parts(parts, state).await {
            Ok(Path((one, other))) => Ok(Self(one, other)),
            Err(_) => Err(Problem::new(&kinds::INVALID_NAME, "the path is not UTF-8")),
        }
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for InQuery<T> {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Problem> {
        let rejection = match Query::<T>::from_request_parts(parts, state).await {
            Ok(Query(query)) => return Ok(Self(query)),
            Err(rejection) => rejection,
        };
        let cause = match rejection {
            QueryRejection::FailedToDeserializeQueryString(error) => {
                std::error::Error::source(&error)
                    .map_or_else(|| error.to_string(), ToString::to_string)
            }
            other => other.to_string(),
        };
        let sentence = with_nearest(&words::plain(&cause));
        // The message itself names an unknown parameter.
        let text = match sentence.split_once("unknown field") {
            Some((_, words)) => format!("unknown parameter{words}"),
            None => sentence,
        };
        Err(Problem::new(&kinds::INVALID_QUERY, text))
    }
}

/// Reads a body of at most 64 KiB that is a JSON object.
///
/// Cancel safe: data that was read is dropped.
pub async fn small_body<T: DeserializeOwned>(
    budget: &ByteBudget,
    request: Request,
) -> Result<T, Problem> {
    let (parts, body) = request.into_parts();
    let read = budget.read(&parts, body, SMALL_BODY_BYTES_MAX);
    Ok(json::read_object(&read.await?.bytes)?)
}

/// Reads a body of at most 64 KiB that is a JSON object or empty.
///
/// Cancel safe: data that was read is dropped.
pub async fn small_body_or_default<T: DeserializeOwned + Default>(
    budget: &ByteBudget,
    request: Request,
) -> Result<T, Problem> {
    let (parts, body) = request.into_parts();
    let read = budget.read(&parts, body, SMALL_BODY_BYTES_MAX);
    Ok(json::read_or_default(&read.await?.bytes)?)
}
