//! The files that jobs have produced.

use std::fs::File;
use std::io::{self, Read as _};

use axum::body::Body;
use axum::extract::State;
use axum::http::header::{
    CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_SECURITY_POLICY, CONTENT_TYPE, HeaderValue,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use host_api::path;
use host_core::access::Verb;
use host_core::artifact::Artifact;
use host_http::extract::TextsInPath;
use host_http::gate::Caller;

use super::Shared;
use super::error::ApiError;
use super::job_id::IdInPath;
use super::problem::kinds;
use super::scoped::{needs, sees_payload_of_job};

/// How much of a file is read at a time, in bytes.
const CHUNK_BYTES: usize = 64 << 10;

/// Returns a file that a job has produced.
#[utoipa::path(
    get, path = path::JOB_ARTIFACT, tag = "jobs", operation_id = "get_artifact",
    params(
        ("id" = String, Path, description = "The job's id or the start of it"),
        ("name" = String, Path, description = "The name of the artifact")
    ),
    responses((status = 200, content_type = "application/octet-stream", body = [u8]))
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    caller: Caller,
    TextsInPath(id, name): TextsInPath,
) -> Result<Response, ApiError> {
    let id = IdInPath::new(id, caller.clone()).find(&shared).await?;
    let wanted = name.clone();
    if !sees_payload_of_job(&shared, &caller, id).await? {
        needs(&caller, Verb::ReadPayload)?;
    }
    let read = shared.api.dispatch.read(move |reader| {
        let content = reader.artifact_content(id, &wanted)?;
        Ok((reader.artifact(id, &wanted)?, content))
    });
    let (artifact, content) = read.await?;
    let artifact = artifact.ok_or_else(|| {
        let shown: String = name.chars().take(128).collect();
        let detail = format!("the job {id} has no artifact {shown:?}");
        ApiError::new(&kinds::ARTIFACT_NOT_FOUND, detail)
    })?;
    let body = match content {
        Some(content) => Body::from(content),
        None => read_file(&shared, &artifact).await?,
    };
    Ok(response(&artifact, body))
}

async fn read_file(shared: &Shared, artifact: &Artifact) -> Result<Body, ApiError> {
    let (artifacts, file) = (shared.api.artifacts.clone(), artifact.file);
    let opened = tokio::task::spawn_blocking(move || artifacts.read(file)).await;
    let file = opened
        .map_err(io::Error::other)
        .flatten()
        .map_err(|error| {
            let detail = format!("cannot read the file of the artifact: {error}");
            ApiError::new(&kinds::ARTIFACT_NOT_FOUND, detail)
        })?;
    Ok(Body::from_stream(chunks(file)))
}

/// Returns the content of a file, read on other threads.
fn chunks(file: File) -> impl Stream<Item = io::Result<Bytes>> {
    stream::try_unfold(file, |mut file| async move {
        let read = tokio::task::spawn_blocking(move || {
            let mut chunk = vec![0; CHUNK_BYTES];
            let length = file.read(&mut chunk)?;
            chunk.truncate(length);
            Ok::<_, io::Error>((Bytes::from(chunk), file))
        });
        let (chunk, file) = read.await.map_err(io::Error::other)??;
        Ok((!chunk.is_empty()).then_some((chunk, file)))
    })
}

/// Makes the answer. Browsers save it and run nothing of it, whatever its type is.
fn response(artifact: &Artifact, body: Body) -> Response {
    let mut response = Response::new(body);
    let headers = response.headers_mut();
    let saved = format!("attachment; filename=\"{}\"", artifact.name);
    for (header, value) in [
        (CONTENT_TYPE, artifact.content_type.clone()),
        (CONTENT_LENGTH, artifact.bytes.to_string()),
        (CONTENT_DISPOSITION, saved),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (CONTENT_SECURITY_POLICY, "sandbox".to_owned()),
    ] {
        if let Ok(value) = HeaderValue::try_from(value) {
            headers.insert(header, value);
        }
    }
    response
}
