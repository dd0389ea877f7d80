//! The files that jobs have produced, and parts of them.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom, Take};
use std::ops::Range;

use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{
    ACCEPT_RANGES, CONTENT_DISPOSITION, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_SECURITY_POLICY,
    CONTENT_TYPE, ETAG, HeaderMap, HeaderName, HeaderValue, IF_NONE_MATCH, IF_RANGE, RANGE,
    X_CONTENT_TYPE_OPTIONS,
};
use axum::response::Response;
use bytes::Bytes;
use futures_util::Stream;
use futures_util::stream;
use host_api::artifact::FileContent;
use host_api::path;
use host_core::access::Verb;
use host_core::artifact::Artifact;
use host_core::hex::hex;
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
    responses(
        (status = 200, content_type = "application/octet-stream", body = FileContent),
        (status = 206, content_type = "application/octet-stream", body = FileContent,
            description = "The part that the header Range asks for: one range of bytes"),
        (status = 304, description = "The client has the content already, as its header If-None-Match says"),
        (status = 416, description = "The range begins behind the end"),
    )
)]
pub(super) async fn show(
    State(shared): State<Shared>,
    caller: Caller,
    headers: HeaderMap,
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
    let tag = format!("\"{}\"", hex(&artifact.sha256));
    if header(&headers, IF_NONE_MATCH).is_some_and(|tags| has_tag(tags, &tag)) {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        put(response.headers_mut(), ETAG, &tag);
        return Ok(response);
    }
    let is_same = header(&headers, IF_RANGE).is_none_or(|known| known == tag);
    let wanted = header(&headers, RANGE).filter(|_| is_same);
    let part = match wanted.map_or(Part::All, |text| part(text, artifact.bytes)) {
        Part::Unsatisfiable => {
            let mut response = Response::new(Body::empty());
            *response.status_mut() = StatusCode::RANGE_NOT_SATISFIABLE;
            let all = format!("bytes */{}", artifact.bytes);
            put(response.headers_mut(), CONTENT_RANGE, &all);
            return Ok(response);
        }
        Part::All => None,
        Part::Some(part) => Some(part),
    };
    let range = part.clone().unwrap_or(0..artifact.bytes);
    let body = match content {
        Some(content) => Body::from(Bytes::from(content).slice(in_memory(&range))),
        None => read_file(&shared, &artifact, range).await?,
    };
    Ok(response(&artifact, &tag, part.as_ref(), body))
}

fn header(headers: &HeaderMap, name: HeaderName) -> Option<&str> {
    headers.get(name)?.to_str().ok()
}

/// Returns whether a list of entity tags has one.
fn has_tag(tags: &str, tag: &str) -> bool {
    let mut tags = tags.split(',').map(|it| it.trim().trim_start_matches("W/"));
    tags.any(|it| it == "*" || it == tag)
}

/// What a client asks for of a file.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    All,
    Some(Range<u64>),
    /// It begins behind the end.
    Unsatisfiable,
}

/// Reads the header `Range`. A client gets the whole file if it asks for several ranges or for something else.
fn part(text: &str, length: u64) -> Part {
    let Some(range) = text.trim().strip_prefix("bytes=") else {
        return Part::All;
    };
    let number = |text: &str| {
        let is_number = !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
        is_number.then(|| text.parse().unwrap_or(u64::MAX))
    };
    let Some((first, last)) = range.split_once('-') else {
        return Part::All;
    };
    let (first, last) = (first.trim(), last.trim());
    let range = match (number(first), number(last)) {
        (Some(first), None) if last.is_empty() => first..length,
        (Some(first), Some(last)) if first <= last => first..length.min(last.saturating_add(1)),
        (None, Some(count)) if first.is_empty() && count > 0 => {
            length.saturating_sub(count)..length
        }
        (None, Some(0)) if first.is_empty() => return Part::Unsatisfiable,
        _ => return Part::All,
    };
    if range.start >= length {
        return Part::Unsatisfiable;
    }
    Part::Some(range)
}

/// Returns a range of what is in memory.
fn in_memory(range: &Range<u64>) -> Range<usize> {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    index(range.start)..index(range.end)
}

async fn read_file(
    shared: &Shared,
    artifact: &Artifact,
    range: Range<u64>,
) -> Result<Body, ApiError> {
    let (artifacts, file) = (shared.api.artifacts.clone(), artifact.file);
    let start = range.start;
    let opened = tokio::task::spawn_blocking(move || {
        let mut file = artifacts.read(file)?;
        file.seek(SeekFrom::Start(start))?;
        io::Result::Ok(file.take(range.end - start))
    })
    .await;
    let file = opened
        .map_err(io::Error::other)
        .flatten()
        .map_err(|error| {
            let detail = format!("cannot read the file of the artifact: {error}");
            ApiError::new(&kinds::ARTIFACT_NOT_FOUND, detail)
        })?;
    Ok(Body::from_stream(chunks(file)))
}

/// Returns content of a file, read on other threads.
fn chunks(file: Take<File>) -> impl Stream<Item = io::Result<Bytes>> {
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
fn response(artifact: &Artifact, tag: &str, part: Option<&Range<u64>>, body: Body) -> Response {
    let mut response = Response::new(body);
    let range = part.cloned().unwrap_or(0..artifact.bytes);
    if part.is_some() {
        *response.status_mut() = StatusCode::PARTIAL_CONTENT;
        let (last, all) = (range.end - 1, artifact.bytes);
        let content_range = format!("bytes {}-{last}/{all}", range.start);
        put(response.headers_mut(), CONTENT_RANGE, &content_range);
    }
    let headers = response.headers_mut();
    let saved = format!("attachment; filename=\"{}\"", artifact.name);
    for (header, value) in [
        (CONTENT_TYPE, artifact.content_type.clone()),
        (CONTENT_LENGTH, (range.end - range.start).to_string()),
        (ACCEPT_RANGES, "bytes".to_owned()),
        (ETAG, tag.to_owned()),
        (CONTENT_DISPOSITION, saved),
        (X_CONTENT_TYPE_OPTIONS, "nosniff".to_owned()),
        (CONTENT_SECURITY_POLICY, "sandbox".to_owned()),
    ] {
        put(headers, header, &value);
    }
    response
}

fn put(headers: &mut HeaderMap, name: HeaderName, value: &str) {
    if let Ok(value) = HeaderValue::try_from(value) {
        headers.insert(name, value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_range_of_bytes_is_understood() {
        for (text, expected) in [
            ("bytes=0-0", Part::Some(0..1)),
            ("bytes=2-", Part::Some(2..10)),
            ("bytes=-3", Part::Some(7..10)),
            ("bytes=-99", Part::Some(0..10)),
            ("bytes=4-99", Part::Some(4..10)),
            ("bytes=4-99999999999999999999999", Part::Some(4..10)),
            ("bytes=10-", Part::Unsatisfiable),
            ("bytes=99999999999999999999999-", Part::Unsatisfiable),
            ("bytes=-0", Part::Unsatisfiable),
            ("bytes=3-2", Part::All),
            ("bytes=0-1,3-4", Part::All),
            ("bytes=+1-2", Part::All),
            ("bytes=-", Part::All),
            ("rows=1-2", Part::All),
        ] {
            assert_eq!(part(text, 10), expected, "{text}");
        }
        assert_eq!(part("bytes=0-", 0), Part::Unsatisfiable);
        assert!(has_tag("\"a\", W/\"b\"", "\"b\"") && !has_tag("\"a\"", "\"b\""));
    }
}
