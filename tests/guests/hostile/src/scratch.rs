//! A handler that tries to get more out of its scratch directory than the host gives.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};

use guest_sdk::{Ctx, Error, handler};
use serde::Deserialize;
use serde_json::{Value, json};

static CHUNK: [u8; 64 << 10] = [7; 64 << 10];

#[derive(Deserialize)]
pub(crate) struct Attack {
    attack: String,
}

/// Makes one attempt, and returns how far it came.
#[handler]
pub(crate) fn scratch(_ctx: &Ctx, params: Attack) -> Result<Value, Error> {
    Ok(match params.attack.as_str() {
        "fill" => fill()?,
        "small files" => count(|n| fs::write(format!("/scratch/{n}"), "x")),
        "empty files" => count(|n| fs::write(format!("/scratch/{n}"), "")),
        "long names" => count(|n| fs::create_dir(format!("/scratch/{n:0>255}"))),
        "depth" => depth(),
        "sparse" => sparse()?,
        "unlinked" => unlinked(),
        "renamed" => renamed()?,
        "links" => links()?,
        "outside" => outside(),
        "stale" => stale()?,
        "listing" => listing()?,
        other => return Err(Error::fatal("unknown", other)),
    })
}

/// `ENOSPC`, and `EIO`, which is what Rust's library makes of it if a stream fails.
const FULL: [i32; 2] = [51, 29];

const NOT_EMPTY: i32 = 55;
const NOT_SUPPORTED: i32 = 58;

fn kind(error: &io::Error) -> String {
    match error.raw_os_error() {
        Some(code) if FULL.contains(&code) => "full".to_owned(),
        Some(NOT_EMPTY) => "not empty".to_owned(),
        Some(NOT_SUPPORTED) => "not supported".to_owned(),
        _ => format!("{:?}", error.kind()),
    }
}

/// Returns how an attempt ended.
fn outcome<T>(attempt: io::Result<T>) -> String {
    attempt.map_or_else(|error| kind(&error), |_| "done".to_owned())
}

/// Repeats an attempt until it fails.
fn count(attempt: impl Fn(u64) -> io::Result<()>) -> Value {
    let mut number = 0;
    loop {
        match attempt(number) {
            Ok(()) => number += 1,
            Err(error) => return json!([number, kind(&error)]),
        }
    }
}

fn write_all_space(file: &mut File) -> (u64, String) {
    let mut bytes = 0;
    loop {
        match file.write(&CHUNK[..1_000]) {
            Ok(written) => bytes += written as u64,
            Err(error) => return (bytes, kind(&error)),
        }
    }
}

/// Fills the directory three times: what is removed, cut or replaced is free again.
fn fill() -> io::Result<Value> {
    let mut rounds = Vec::new();
    for round in 0..3 {
        let mut file = File::create("/scratch/a")?;
        rounds.push(write_all_space(&mut file));
        match round {
            0 => file.set_len(0)?,
            1 => fs::remove_file("/scratch/a")?,
            _ => {}
        }
    }
    Ok(json!(rounds))
}

/// Makes folders in folders. Returns how long the path of the last one is.
fn depth() -> Value {
    let mut path = "/scratch".to_owned();
    while fs::create_dir(format!("{path}/d")).is_ok() {
        path += "/d";
    }
    json!(path.len())
}

fn sparse() -> io::Result<Value> {
    let mut file = File::create("/scratch/a")?;
    let grown = outcome(file.set_len(1 << 40));
    file.seek(SeekFrom::Start(1 << 40))?;
    let written = outcome(file.write_all(b"x"));
    file.seek(SeekFrom::Start(u64::MAX >> 1))?;
    let far = outcome(file.write_all(b"x"));
    let within = outcome(file.set_len(1 << 20));
    Ok(json!([grown, written, far, within, file.metadata()?.len()]))
}

/// Writes files that no longer have a name, and closes them.
fn unlinked() -> Value {
    let mut open = Vec::new();
    let failed = loop {
        let made = File::create("/scratch/a").and_then(|mut file| {
            fs::remove_file("/scratch/a")?;
            file.write_all(&CHUNK)?;
            Ok(file)
        });
        match made {
            Ok(file) => open.push(file),
            Err(error) => break kind(&error),
        }
    };
    let files = open.len();
    drop(open);
    let again = outcome(fs::write("/scratch/b", vec![1; files * CHUNK.len()]));
    json!([files, failed, again])
}

fn renamed() -> io::Result<Value> {
    fs::create_dir_all("/scratch/a/b/c")?;
    fs::write("/scratch/a/b/file", "1")?;
    let into_itself = outcome(fs::rename("/scratch/a", "/scratch/a/b/c/a"));
    for _ in 0..50 {
        fs::write("/scratch/other", vec![1; 1 << 20])?;
        fs::rename("/scratch/other", "/scratch/a/b/file")?;
    }
    let over_folder = outcome(fs::rename("/scratch/a/b/file", "/scratch/a/b/c"));
    let over_full = outcome(fs::rename("/scratch/a/b/c", "/scratch/a"));
    Ok(json!([
        into_itself,
        over_folder,
        over_full,
        fs::metadata("/scratch/a/b/file")?.len()
    ]))
}

fn links() -> io::Result<Value> {
    fs::write("/scratch/a", "x")?;
    #[expect(deprecated, reason = "it is the only way without features")]
    let symbolic = outcome(fs::soft_link("/etc/passwd", "/scratch/b"));
    let hard = outcome(fs::hard_link("/scratch/a", "/scratch/c"));
    let names = fs::read_dir("/scratch")?.count();
    Ok(json!([symbolic, hard, names]))
}

fn outside() -> Value {
    let paths = [
        "/scratch/../etc/passwd",
        "/scratch/..",
        "/scratch/a/../../etc/passwd",
        "/etc/passwd",
        "/tmp/x",
        "/",
        "..",
    ];
    let done = paths.iter().filter(|path| {
        fs::read(path).is_ok() || fs::write(path, "x").is_ok() || fs::read_dir(path).is_ok()
    });
    json!(done.collect::<Vec<_>>())
}

/// Looks for content of removed files in new ones.
fn stale() -> io::Result<Value> {
    fs::write("/scratch/a", vec![9; 1 << 20])?;
    fs::remove_file("/scratch/a")?;
    let mut file = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open("/scratch/b")?;
    file.write_all(&CHUNK[..40_000])?;
    file.set_len(10)?;
    file.set_len(100_000)?;
    file.seek(SeekFrom::Start(200_000))?;
    file.write_all(b"end")?;
    file.rewind()?;
    let mut content = Vec::new();
    file.read_to_end(&mut content)?;
    let other = content[10..200_000].iter().filter(|byte| **byte != 0);
    Ok(json!([content.len(), other.count()]))
}

/// Removes and adds files while it lists them, many times.
fn listing() -> io::Result<Value> {
    for n in 0..3_000 {
        fs::write(format!("/scratch/{n}"), "")?;
    }
    let mut listings: Vec<_> = (0..200)
        .map_while(|_| fs::read_dir("/scratch").ok())
        .collect();
    let mut seen = 0;
    for entry in fs::read_dir("/scratch")? {
        fs::remove_file(entry?.path())?;
        seen += 1;
    }
    let rest = listings.pop().map_or(0, Iterator::count);
    Ok(json!([seen, rest]))
}
