//! The log file that a Hero job names: the end of it, from below the configured folder alone.

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};

use axum::Json;
use axum::extract::State;
use host_http::extract::InQuery;
use host_http::problem::{Problem, kinds};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use super::problems::{HERO_LOG_MISSING, HERO_OFF};
use super::{HeroId, Shared, find, hero, path};
use crate::log_files::{LogFileError, LogRoot};

/// How much of the end is shown by default, and at most, in bytes.
const TAIL_BYTES: u64 = 1 << 20;
const TAIL_BYTES_MAX: u64 = 16 << 20;

/// How much of the log.
#[derive(Debug, Serialize, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
pub(crate) struct TailQuery {
    /// At most this many bytes from the end, 1 to 16 MiB; 1 MiB if absent.
    #[param(minimum = 1, maximum = 16_777_216)]
    pub(crate) tail_bytes: Option<u64>,
}

/// The end of a log file.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[schema(as = HeroLog)]
pub(crate) struct LogView {
    /// The job.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) id: String,
    /// The file, as the job names it.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) log_path: String,
    /// How long the file is.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) file_bytes: u64,
    /// How many bytes before the text are left out.
    #[serde(default)]
    #[schema(required = true)]
    pub(crate) skipped_bytes: u64,
    /// The text; invalid UTF-8 is replaced.
    pub(crate) text: String,
}

/// Shows the end of the log file that a Hero job names, read on this host.
#[utoipa::path(
    get, path = path::LOGS, tag = "hero",
    params(("id" = String, Path, description = "The job's id, in full"), TailQuery),
    responses((status = 200, body = LogView))
)]
pub(super) async fn logs(
    State(shared): State<Shared>,
    HeroId(id): HeroId,
    InQuery(query): InQuery<TailQuery>,
) -> Result<Json<LogView>, Problem> {
    let bytes_max = query.tail_bytes.unwrap_or(TAIL_BYTES);
    if !(1..=TAIL_BYTES_MAX).contains(&bytes_max) {
        let detail = format!("tail_bytes must be 1–{TAIL_BYTES_MAX}, got {bytes_max}");
        return Err(Problem::new(&kinds::INVALID_QUERY, detail));
    }
    let Some(root) = hero(&shared)?.log_dir.as_deref().map(LogRoot::new) else {
        let detail = "no folder for log files is configured; set protocol.hero.log_dir";
        return Err(Problem::new(&HERO_OFF, detail));
    };
    let job = find(&shared, &id).await?;
    let missing = |detail: String| Problem::new(&HERO_LOG_MISSING, detail);
    let path = job.get("log_path").filter(|path| !path.is_empty());
    let Some(path) = path.map(str::to_owned) else {
        return Err(missing(format!("job {id} names no log_path")));
    };
    let log_path = path.clone();
    let read = tokio::task::spawn_blocking(move || match root.read(&path) {
        Ok(file) => tail(file, bytes_max).map_err(LogFileError::System),
        Err(error) => Err(error),
    })
    .await
    .map_err(|error| {
        Problem::new(
            &kinds::INTERNAL,
            format!("reading a log file ended: {error}"),
        )
    })?;
    let (file_bytes, tail) = read.map_err(|error| match error {
        LogFileError::System(error) if error.kind() == io::ErrorKind::NotFound => {
            missing(format!("job {id} has written no log on this host yet"))
        }
        error => missing(format!("E_LOG_PATH log_path of job {id}: {error}")),
    })?;
    Ok(Json(LogView {
        id,
        log_path,
        file_bytes,
        skipped_bytes: file_bytes.saturating_sub(tail.len() as u64),
        text: String::from_utf8_lossy(&tail).into_owned(),
    }))
}

/// Returns the length of a file, which may still grow, and its end.
fn tail(mut file: File, bytes_max: u64) -> io::Result<(u64, Vec<u8>)> {
    let file_bytes = file.metadata()?.len();
    file.seek(SeekFrom::Start(file_bytes.saturating_sub(bytes_max)))?;
    let mut tail = Vec::new();
    file.take(bytes_max.min(file_bytes))
        .read_to_end(&mut tail)?;
    Ok((file_bytes, tail))
}
