//! What the host does for the audit besides recording changes: it takes notes that commands leave, forgets old entries,
//! and appends new ones to a file.

pub mod left;

use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host_api::audit::EntryView;
use host_core::time::Time;
use host_dispatch::Dispatch;
use host_engine::audit::{AddNote, DONE, Entry, ForgetAudit, Note};
use host_engine::table::Range;
use host_runtime::clock::Clock;
use tokio_util::sync::CancellationToken;

use crate::config::AuditConfig;

/// How often new entries are read.
const READ_EVERY: Duration = Duration::from_secs(1);

/// How often old entries are forgotten, in milliseconds, and how many parts of them at a time.
const FORGET_EVERY_MS: u64 = 3_600_000;
const PARTS_MAX: u32 = 100;

/// How many entries are read at a time.
const READ: u32 = 1_000;

/// How much of the end of a file is read to find its last entry, in bytes.
const TAIL_BYTES: u64 = 64 << 10;

/// Records that the host has started, and with which keys of its configuration.
pub(crate) async fn record_start(dispatch: &Dispatch, keys: &[&str]) {
    let start = Note::by_host("start", "host");
    let note = Box::new(start.detail(format!("configuration: {}", keys.join(" "))));
    let outcome = DONE.to_owned();
    if let Err(error) = dispatch.submit(AddNote { note, outcome }).await {
        tracing::warn!(%error, "cannot record the start in the audit");
    }
}

/// Keeps the audit in its bounds, and its file up to date, until `stopping`.
pub async fn run(
    config: AuditConfig,
    data: PathBuf,
    dispatch: Dispatch,
    clock: Clock,
    stopping: CancellationToken,
) {
    let mut export = config.export_file.map(Export::open);
    let mut forgot_at = None;
    while stopping
        .run_until_cancelled(tokio::time::sleep(READ_EVERY))
        .await
        .is_some()
    {
        left::take(&data, &dispatch).await;
        let now = clock.now();
        if forgot_at.is_none_or(|at| now.since_ms(at) >= FORGET_EVERY_MS) {
            forgot_at = Some(now);
            let kept_ms = i64::try_from(config.retention_ms).unwrap_or(i64::MAX);
            forget(&dispatch, Time(now.0.saturating_sub(kept_ms))).await;
        }
        if let Some(export) = &mut export {
            export.follow(&dispatch).await;
        }
    }
}

/// Forgets the entries before a time, part by part.
pub(crate) async fn forget(dispatch: &Dispatch, before: Time) {
    for _ in 0..PARTS_MAX {
        let first = dispatch.read(|reader| reader.list::<Entry>(Range::all().first(2)));
        let is_old = match first.await.as_deref() {
            Ok([first, _]) => first.at < before,
            _ => false,
        };
        let forget = ForgetAudit { before };
        if !is_old || dispatch.submit(forget).await.is_err() {
            return;
        }
    }
}

/// A file to which entries are appended, each as a line of JSON.
struct Export {
    path: PathBuf,
    /// The number of the last entry in the file; `None` until it could be read.
    last: Option<u64>,
    has_failed: bool,
}

impl Export {
    fn open(path: PathBuf) -> Self {
        Self {
            path,
            last: None,
            has_failed: false,
        }
    }

    /// Appends what is new.
    async fn follow(&mut self, dispatch: &Dispatch) {
        let last = match self.last {
            Some(last) => Ok(last),
            None => last_number(&self.path),
        };
        let appended = match last {
            Ok(mut last) => loop {
                let reading = move |reader: &dyn host_engine::Reader| {
                    reader.list::<Entry>(Range::all().after(last).first(READ))
                };
                // Retries while the database is away.
                let Ok(page) = dispatch.read(reading).await else {
                    return;
                };
                let Some(newest) = page.last().map(|entry| entry.number) else {
                    break Ok(last);
                };
                let lines = page.into_iter().map(|entry| {
                    let line = serde_json::to_string(&EntryView::from(entry));
                    line.unwrap_or_default() + "\n"
                });
                if let Err(error) = append(&self.path, &lines.collect::<String>()) {
                    // What was written of it is found again.
                    self.last = None;
                    break Err(error);
                }
                last = newest;
                self.last = Some(last);
            },
            Err(error) => Err(error),
        };
        match appended {
            Ok(last) => {
                self.last = Some(last);
                self.has_failed = false;
            }
            Err(error) => {
                if !std::mem::replace(&mut self.has_failed, true) {
                    let path = self.path.display();
                    tracing::error!(%path, %error, "cannot export the audit; retrying");
                }
            }
        }
    }
}

/// Appends lines, so that they are on disk.
fn append(path: &Path, lines: &str) -> io::Result<()> {
    let mut file = std::fs::OpenOptions::new()
        .create(true)
        .append(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(lines.as_bytes())?;
    file.sync_data()
}

/// Returns the number of the last whole line of the file, 0 if there is none. Ends a line that was cut.
fn last_number(path: &Path) -> io::Result<u64> {
    let mut file = match std::fs::OpenOptions::new()
        .read(true)
        .append(true)
        .open(path)
    {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(0),
        opened => opened?,
    };
    let length = file.metadata()?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(TAIL_BYTES)))?;
    let mut tail = Vec::new();
    file.read_to_end(&mut tail)?;
    if tail.last().is_some_and(|byte| *byte != b'\n') {
        file.write_all(b"\n")?;
    }
    let text = String::from_utf8_lossy(&tail);
    let read = |line: &str| serde_json::from_str::<EntryView>(line).ok();
    let last = text.lines().rev().find_map(read);
    Ok(last.map_or(0, |entry| entry.number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_export_goes_on_behind_its_last_whole_line() {
        let folder = tempfile::TempDir::new().unwrap();
        let path = folder.path().join("audit.jsonl");
        assert_eq!(last_number(&path).unwrap(), 0);
        let line = |number: u64| {
            format!("{{\"number\":{number},\"previous\":\"\",\"hash\":\"\",\"record\":{{}}}}\n")
        };
        append(&path, &(line(1) + &line(2))).unwrap();
        assert_eq!(last_number(&path).unwrap(), 2);
        append(&path, "{\"number\":3,\"prev").unwrap();
        assert_eq!(last_number(&path).unwrap(), 2);
        append(&path, &line(3)).unwrap();
        assert_eq!(last_number(&path).unwrap(), 3);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.lines().count(), 4, "the cut line is apart");
    }
}
