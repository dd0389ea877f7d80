//! Files that are sent for jobs to read. What arrives goes to the disk piece by piece.

use std::sync::Arc;
use std::time::Duration;

use axum::Json;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap};
use axum::http::{StatusCode, header};
use futures_util::StreamExt as _;
use host_api::artifact::{FileContent, UploadView};
use host_api::path;
use host_core::artifact::{
    Artifact, NewArtifact, ROW_BYTES_MAX, UNKNOWN_TYPE, UPLOAD, flaw_of_type,
};
use host_core::hex::hex;
use host_engine::artifact::{ArtifactRefusal, KeepUpload, Upload, UploadUsage};
use host_http::gate::Caller;
use host_http::refusal::Refusal;
use host_runtime::ids;

use super::Shared;
use super::enqueue::origin_of;
use super::error::ApiError;
use super::problem::kinds;
use crate::artifacts::{Full, Staged};

/// How many files may arrive concurrently.
pub(super) const UPLOADS_MAX: usize = 32;

/// How long the next piece may take.
const PIECE_TIMEOUT: Duration = Duration::from_mins(1);

/// Keeps a file for jobs to read.
#[utoipa::path(
    put, path = path::ARTIFACTS, tag = "jobs", operation_id = "upload_artifact",
    request_body(
        content = FileContent, content_type = "application/octet-stream",
        description = "The content of the file, of any length that artifacts.token_max_mib of the configuration leaves room \
                       for, and of any content type."
    ),
    responses((status = 201, body = UploadView))
)]
pub(super) async fn create(
    State(shared): State<Shared>,
    caller: Caller,
    request: Request,
) -> Result<(StatusCode, Json<UploadView>), ApiError> {
    let Ok(_permit) = Arc::clone(&shared.uploads).try_acquire_owned() else {
        let detail = format!("{UPLOADS_MAX} files are being uploaded, the most there may be");
        return Err(ApiError::new(&kinds::BUSY, detail));
    };
    let (parts, body) = request.into_parts();
    let content_type = content_type(&parts.headers)?;
    let owner = origin_of(&caller.principal).map_or_else(String::new, |it| it.principal);
    let mut room = Room::of(&shared, owner.clone()).await?;
    let announced = announced(&parts.headers);
    room.check(announced.unwrap_or_default())?;
    let artifacts = shared.api.artifacts.clone();
    let begun = blocking(move || artifacts.begin().map_err(Full::from)).await?;
    let staged = receive(&shared, &caller, body, begun, &mut room).await?;
    let content = blocking(move || staged.finish().map_err(Full::from)).await?;
    let now = shared.api.clock.now();
    let artifact = Artifact {
        name: UPLOAD.to_owned(),
        content_type,
        bytes: content.bytes,
        sha256: content.sha256,
        file: content.file,
    };
    let upload = Upload {
        id: ids::job(now).0,
        owner,
        at: now,
        bytes: content.bytes,
    };
    let view = UploadView {
        id: upload.id.to_string(),
        content_type: artifact.content_type.clone(),
        bytes: artifact.bytes,
        sha256: hex(&artifact.sha256),
        expires_at: upload.expires_at().to_rfc3339(),
    };
    let keep = KeepUpload {
        upload,
        artifact: Box::new(NewArtifact {
            artifact,
            content: content.row,
        }),
        quota_bytes: room.quota_bytes,
    };
    // Until the store has it, the file is held.
    let kept = shared.api.dispatch.submit(keep).await;
    drop(content.hold);
    kept?;
    Ok((StatusCode::CREATED, Json(view)))
}

/// What the uploads of a principal have together with the one that arrives.
struct Room {
    bytes: u64,
    quota_bytes: u64,
}

impl Room {
    async fn of(shared: &Shared, owner: String) -> Result<Self, ApiError> {
        let quota_bytes = shared.api.token_upload_bytes_max;
        let usage = shared
            .read(move |reader| reader.get::<UploadUsage>(&owner))
            .await?;
        let bytes = usage.map_or(0, |usage| usage.bytes);
        Ok(Self { bytes, quota_bytes })
    }

    /// Refuses an upload that has so many bytes more.
    fn check(&self, more: u64) -> Result<(), ApiError> {
        let bytes = self.bytes.saturating_add(more);
        let quota_bytes = self.quota_bytes;
        let refusal = || host_engine::Rejection::from(ArtifactRefusal::Full { bytes, quota_bytes });
        if bytes > quota_bytes {
            return Err(refusal().into());
        }
        Ok(())
    }
}

fn announced(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

fn content_type(headers: &HeaderMap) -> Result<String, ApiError> {
    let Some(given) = headers.get(CONTENT_TYPE) else {
        return Ok(UNKNOWN_TYPE.to_owned());
    };
    let text = given.to_str().unwrap_or_default();
    match flaw_of_type(text) {
        None => Ok(text.to_owned()),
        Some(flaw) => Err(ApiError::invalid(format!(
            "{}: {flaw}",
            header::CONTENT_TYPE
        ))),
    }
}

/// Writes what arrives.
async fn receive(
    shared: &Shared,
    caller: &Caller,
    body: Body,
    mut staged: Staged,
    room: &mut Room,
) -> Result<Staged, ApiError> {
    let over = caller.over.clone().unwrap_or_default();
    let mut body = body.into_data_stream();
    loop {
        let next = tokio::select! {
            piece = tokio::time::timeout(PIECE_TIMEOUT, body.next()) => piece,
            () = shared.api.stopping.cancelled() => {
                return Err(ApiError::new(&kinds::BUSY, "the host is stopping; send the file again"));
            }
            () = over.cancelled() => return Err(Refusal::Unauthenticated.into()),
        };
        let limit = PIECE_TIMEOUT;
        let Some(read) = next.map_err(|_| Refusal::BodyTimeout { limit })? else {
            return Ok(staged);
        };
        let piece = read.map_err(|_| Refusal::BodyBroken)?;
        room.check(piece.len() as u64)?;
        room.bytes += piece.len() as u64;
        staged = blocking(move || staged.append(&piece).map(|()| staged)).await?;
    }
}

/// Does work that blocks.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Full> + Send + 'static,
) -> Result<T, ApiError> {
    let done = tokio::task::spawn_blocking(work).await;
    let failed = |cause: String| ApiError::new(&kinds::STORE_FAILED, cause);
    match done.map_err(|error| failed(error.to_string()))? {
        Ok(done) => Ok(done),
        Err(Full::Row) => Err(Refusal::BodyTooLarge {
            limit_bytes: usize::try_from(ROW_BYTES_MAX).unwrap_or(usize::MAX),
        }
        .into()),
        Err(full @ Full::Host(_)) => Err(ApiError::new(
            &host_engine::kinds::ARTIFACTS_FULL,
            full.to_string(),
        )),
        Err(full @ Full::Disk(_)) => Err(failed(full.to_string())),
    }
}
