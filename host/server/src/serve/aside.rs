//! Sets aside what the host cannot read of its store, before it opens it: the log, the audit and a file in the data directory
//! say what it was.

use std::fs::{File, OpenOptions};
use std::io::{self, BufWriter, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use host_engine::StoreError;
use host_runtime::clock::Clock;
use host_store::{Keep, SetAside, postgres, sqlite};
use serde_json::json;

use super::damage::STORE;
use crate::audit::left;
use crate::config::Config;

/// The file in the data directory. Each run adds to it.
const FILE: &str = "set-aside.jsonl";

/// How many records the log and the audit name.
const NAMED_MAX: usize = 100;

/// Sets aside what cannot be read of the store that the configuration names. No host may use it.
pub(super) fn set_aside(config: &Config) -> Result<(), StoreError> {
    let store = config.data.join(STORE);
    let mut kept = AsideFile::new(config.data.join(FILE));
    let records = match &config.store {
        Some(database) => postgres::aside::set_aside(&database.target, &mut kept)?,
        None if store.exists() => sqlite::aside::set_aside(&store, &mut kept)?,
        None => 0,
    };
    kept.report(&config.data, records);
    Ok(())
}

/// The file, once something is set aside.
struct AsideFile {
    path: PathBuf,
    file: Option<BufWriter<File>>,
    at: String,
    named: Vec<(String, String)>,
}

impl AsideFile {
    fn new(path: PathBuf) -> Self {
        Self {
            path,
            file: None,
            at: Clock::start().now().to_rfc3339(),
            named: Vec::new(),
        }
    }

    fn report(&self, data: &Path, records: u64) {
        if records == 0 {
            tracing::info!("the host can read all records of the store; none was set aside");
            return;
        }
        for (record, reason) in &self.named {
            tracing::warn!(%record, %reason, "a record was set aside");
            note(data, record);
        }
        let others = records.saturating_sub(self.named.len() as u64);
        if others > 0 {
            note(data, &format!("{others} more records"));
        }
        let file = self.path.display();
        tracing::warn!(records, %file, "records were set aside; the file has them");
    }
}

/// Leaves a note for the audit. What it says is done already.
fn note(data: &Path, record: &str) {
    if let Err(error) = left::leave(data, "set-aside", record) {
        tracing::warn!(%error, record, "cannot leave a note for the audit");
    }
}

impl Keep for AsideFile {
    fn keep(&mut self, record: &SetAside) -> io::Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            missing => {
                let mut options = OpenOptions::new();
                let file = options
                    .create(true)
                    .append(true)
                    .mode(0o600)
                    .open(&self.path)?;
                missing.insert(BufWriter::new(file))
            }
        };
        let SetAside {
            kind,
            id,
            reason,
            row,
        } = record;
        let line = json!({"at": self.at, "kind": kind, "id": id, "reason": reason, "row": row});
        writeln!(file, "{line}")?;
        if self.named.len() < NAMED_MAX {
            self.named.push((format!("{kind} {id}"), reason.clone()));
        }
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        if let Some(file) = &mut self.file {
            file.flush()?;
            file.get_ref().sync_all()?;
        }
        let folder = self.path.parent().unwrap_or(Path::new("."));
        File::open(folder)?.sync_all()
    }
}
