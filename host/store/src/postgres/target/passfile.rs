//! Looks up a password in a file in libpq's format: `HOST:PORT:DATABASE:USER:PASSWORD` on each line, `*` for
//! any, and a backslash before a colon or a backslash.

use std::fs::{File, Metadata};
use std::io::{ErrorKind, Read};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::TargetError;

/// The largest password file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One server to find a password for.
pub(super) struct PasswordQuery {
    pub(super) host: String,
    pub(super) port: String,
    pub(super) database: String,
    pub(super) user: String,
}

/// Returns the password of the first server that the file has. The file may be missing.
pub(super) fn password(
    path: &Path,
    asked: &[PasswordQuery],
) -> Result<Option<String>, TargetError> {
    let refused = |problem| TargetError::PassFile {
        path: path.to_owned(),
        problem,
    };
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(refused("cannot be read")),
    };
    let metadata = file.metadata().map_err(|_| refused("cannot be read"))?;
    private(&metadata).map_err(refused)?;
    let text = bounded(file).map_err(refused)?;
    let lines: Vec<_> = text.lines().filter_map(fields).collect();
    let found = asked.iter().find_map(|asked| {
        let wanted = [&asked.host, &asked.port, &asked.database, &asked.user];
        let fits = |[pattern @ .., _]: &&[String; 5]| {
            let mut both = pattern.iter().zip(wanted);
            both.all(|(pattern, wanted)| pattern == "*" || pattern == wanted)
        };
        lines.iter().find(fits)
    });
    Ok(found.map(|[.., password]| password.clone()))
}

/// Refuses a file that others than its owner may read.
pub(super) fn private(metadata: &Metadata) -> Result<(), &'static str> {
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err("other users may read it; run chmod 600 on it");
    }
    Ok(())
}

/// Reads a file of at most [`FILE_BYTES_MAX`].
pub(super) fn bounded(file: impl Read) -> Result<String, &'static str> {
    let mut text = String::new();
    let read = file.take(FILE_BYTES_MAX + 1).read_to_string(&mut text);
    read.map_err(|_| "cannot be read")?;
    if text.len() as u64 > FILE_BYTES_MAX {
        return Err("larger than 1 MiB");
    }
    Ok(text)
}

/// Splits a line; `None` for a comment and for anything else.
fn fields(line: &str) -> Option<[String; 5]> {
    if line.starts_with('#') {
        return None;
    }
    let mut fields = vec![String::new()];
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => fields.last_mut()?.extend(chars.next()),
            ':' if fields.len() < 5 => fields.push(String::new()),
            c => fields.last_mut()?.push(c),
        }
    }
    fields.try_into().ok()
}
