//! Looks a password up in a file as libpq has it: `HOST:PORT:DATABASE:USER:PASSWORD` on each line, `*`
//! for any, and a backslash before a colon or a backslash.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use super::TargetError;

/// The most bytes of a file of passwords.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// One server that a password is asked for.
pub(super) struct Asked {
    pub(super) host: String,
    pub(super) port: String,
    pub(super) database: String,
    pub(super) user: String,
}

/// Returns the password of the first server that the file knows. There may be no file.
pub(super) fn password(path: &Path, asked: &[Asked]) -> Result<Option<String>, TargetError> {
    let refused = |problem| TargetError::PassFile {
        path: path.to_owned(),
        problem,
    };
    let metadata = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(_) => return Err(refused("it cannot be read")),
    };
    if metadata.permissions().mode() & 0o077 != 0 {
        return Err(refused("others may read it; run chmod 600 on it"));
    }
    if metadata.len() > FILE_BYTES_MAX {
        return Err(refused("it is larger than 1 MiB"));
    }
    let text = fs::read_to_string(path).map_err(|_| refused("it cannot be read"))?;
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
