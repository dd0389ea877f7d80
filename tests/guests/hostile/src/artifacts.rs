//! Handlers that keep files with their jobs, read others, and ask for more than they may.

use std::io::{Read, Write};

use guest_sdk::{Ctx, Error, StoreError, handler};
use serde::Deserialize;
use serde_json::Value;

static CHUNK: [u8; 1 << 16] = [b'x'; 1 << 16];

#[derive(Deserialize)]
pub(crate) struct Production {
    files: Vec<FileToKeep>,
    /// Asks this server before the end.
    asks: Option<String>,
    /// Whether the attempt fails in the end.
    #[serde(default)]
    fails: bool,
}

#[derive(Deserialize)]
pub(crate) struct FileToKeep {
    name: String,
    content_type: Option<String>,
    #[serde(default)]
    text: String,
    /// How much follows the text.
    #[serde(default)]
    kib: usize,
    #[serde(default)]
    stays_open: bool,
}

/// Keeps files, and returns how each of them went.
#[handler]
pub(crate) fn artifacts(ctx: &Ctx, params: Production) -> Result<Vec<Value>, Error> {
    let kept = params.files.iter().map(|file| match keep(ctx, file) {
        Ok(()) => Value::from("kept"),
        Err(refusal) => Value::from(refusal),
    });
    let outcomes = kept.collect();
    if let Some(url) = &params.asks {
        ctx.http().get(url).send()?;
    }
    if params.fails {
        return Err(Error::fatal("wanted", "it fails, as it was asked to"));
    }
    Ok(outcomes)
}

fn keep(ctx: &Ctx, file: &FileToKeep) -> Result<(), String> {
    let refused = |error: StoreError| error.message;
    let created = match &file.content_type {
        Some(content_type) => ctx.artifacts().create_as(&file.name, content_type),
        None => ctx.artifacts().create(&file.name),
    };
    let mut writer = created.map_err(refused)?;
    let mut left = file.kib << 10;
    let mut write = |content: &[u8]| writer.write_all(content).map_err(|error| error.to_string());
    write(file.text.as_bytes())?;
    while left > 0 {
        let part = &CHUNK[..left.min(CHUNK.len())];
        write(part)?;
        left -= part.len();
    }
    if file.stays_open {
        return Ok(());
    }
    writer.close().map_err(refused)
}

#[derive(Deserialize)]
pub(crate) struct FilesToRead {
    read: Vec<String>,
}

/// Reads files of the job, and returns the text of each, its length if it is long, or why it cannot be read.
#[handler]
pub(crate) fn open_files(ctx: &Ctx, params: FilesToRead) -> Result<Vec<Value>, Error> {
    let read = |name: &String| -> Result<Value, String> {
        let mut file = ctx.artifacts().open(name).map_err(|error| error.message)?;
        let mut content = Vec::new();
        file.read_to_end(&mut content)
            .map_err(|error| error.to_string())?;
        Ok(match String::from_utf8(content) {
            Ok(text) if text.len() < 100 => text.into(),
            Ok(text) => text.len().into(),
            Err(error) => error.as_bytes().len().into(),
        })
    };
    let outcomes = params
        .read
        .iter()
        .map(|name| read(name).unwrap_or_else(Value::from));
    Ok(outcomes.collect())
}
