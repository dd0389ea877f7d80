//! Compiles the schemas of a component in a child with limits on memory and time, before the host does. The
//! verdict on schemas that pass is kept in the cache folder, sealed.

use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use host_core::json::JsonText;
use host_runtime::ids;
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::compile::schema::{SCHEMA_BYTES_MAX, Schema};
use crate::compile::seal::Sealer;
use crate::sandbox::child::{CellProgram, Child, Order};

/// The memory that a child may write to, in bytes.
pub const MEMORY_BYTES_MAX: u64 = 128 << 20;

/// The CPU time of a child, in seconds.
pub const CPU_SECONDS_MAX: u64 = 10;

/// How long a child may take. It also limits its own computation.
const TIMEOUT: Duration = Duration::from_mins(1);

/// The longest reply of a child, in bytes.
const REPLY_BYTES_MAX: u64 = 64 << 10;

/// The most bytes of all schemas of one component together.
const SCHEMAS_BYTES_MAX: usize = 4 << 20;

/// What a note about schemas says.
const PASSED: &[u8] = b"passed";

/// Why schemas are not accepted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum SchemaFlaw {
    /// The schema that is refused, and why.
    One(usize, String),
    /// The schemas are refused together.
    All(String),
}

/// A child's answer: the index of the first schema that is refused, and why.
type Reply = Result<(), (usize, String)>;

/// Compiles the schemas in a child, unless the cache in `folder` says that they pass.
pub(crate) async fn vet(
    program: &CellProgram,
    folder: &Path,
    sealer: &Sealer,
    schemas: &[&JsonText],
) -> Result<(), SchemaFlaw> {
    let bytes: usize = schemas.iter().map(|schema| schema.as_str().len()).sum();
    if bytes > SCHEMAS_BYTES_MAX {
        return Err(SchemaFlaw::All(format!(
            "the schemas have {bytes} bytes, more than {SCHEMAS_BYTES_MAX}"
        )));
    }
    // The child refuses a long schema by its length alone.
    let long = schemas
        .iter()
        .position(|schema| schema.as_str().len() > SCHEMA_BYTES_MAX);
    if let Some(index) = long {
        let refused = Schema::compile(schemas[index]).err().unwrap_or_default();
        return Err(SchemaFlaw::One(index, refused));
    }
    let text = serde_json::to_vec(schemas)
        .map_err(|error| SchemaFlaw::All(format!("cannot write the schemas: {error}")))?;
    let digest = host_engine::component::Digest(Sha256::digest(&text).into());
    let name = format!("{digest}-{}.schemas", program.engine_hash);
    let note = folder.join(&name);
    if std::fs::read(&note).is_ok_and(|seal| sealer.holds(&seal, &name, PASSED)) {
        return Ok(());
    }
    let child = tokio::time::timeout(TIMEOUT, ask(program, &text));
    let reply = child.await.unwrap_or_else(|_| {
        let limit = TIMEOUT.as_secs();
        Err(format!("compiling the schemas takes longer than {limit} s"))
    });
    match reply {
        Ok(Ok(())) => {
            // Without the note the schemas are compiled again.
            let half = note.with_extension(ids::unique());
            let seal = sealer.seal(&name, PASSED);
            // Without the note, the schemas are checked again.
            let _ = std::fs::write(&half, seal).and_then(|()| std::fs::rename(&half, &note));
            Ok(())
        }
        Ok(Err((index, message))) => Err(SchemaFlaw::One(index, message)),
        Err(message) => Err(SchemaFlaw::All(message)),
    }
}

async fn ask(program: &CellProgram, schemas: &[u8]) -> Result<Reply, String> {
    let failed = |error: io::Error| format!("the process that compiles schemas failed: {error}");
    let order = Order {
        words: &["cell".to_owned(), "schemas".to_owned()],
        has_pipes: true,
        ..Order::default()
    };
    let mut child = Child::start(program, order).map_err(failed)?;
    let (Some(mut stdin), Some(stdout)) = (child.stdin.take(), child.stdout.take()) else {
        return Err("the process that compiles schemas has no pipes".to_owned());
    };
    let feed = async move {
        // A child that has reached a limit stops reading.
        // A child that has ended says so by its status.
        let _ = stdin.write_all(schemas).await;
    };
    let mut reply = Vec::new();
    let mut stdout = stdout.take(REPLY_BYTES_MAX);
    let (read, ()) = tokio::join!(stdout.read_to_end(&mut reply), feed);
    read.map_err(failed)?;
    let status = child.wait().await.map_err(failed)?;
    match serde_json::from_slice(&reply) {
        Ok(reply) if status.success() => Ok(reply),
        _ => Err(format!(
            "compiling the schemas takes more than {} MiB or {CPU_SECONDS_MAX} s of CPU ({status})",
            MEMORY_BYTES_MAX >> 20
        )),
    }
}

/// The work of the child: compiles all schemas of `input` and keeps them, as the host would. The process
/// must be limited before.
pub fn answer(input: &mut dyn Read, output: &mut dyn Write) -> io::Result<()> {
    let mut text = Vec::new();
    let most = 2 * SCHEMAS_BYTES_MAX as u64;
    input.take(most).read_to_end(&mut text)?;
    let schemas: Vec<JsonText> = serde_json::from_slice(&text)?;
    let mut kept = Vec::with_capacity(schemas.len());
    let mut reply: Reply = Ok(());
    for (index, schema) in schemas.iter().enumerate() {
        match Schema::compile(schema) {
            Ok(schema) => kept.push(schema),
            Err(message) => {
                reply = Err((index, message));
                break;
            }
        }
    }
    serde_json::to_writer(&mut *output, &reply)?;
    output.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply_to(schemas: &[&str]) -> Reply {
        let schemas = serde_json::to_vec(schemas).unwrap();
        let mut reply = Vec::new();
        answer(&mut schemas.as_slice(), &mut reply).unwrap();
        serde_json::from_slice(&reply).unwrap()
    }

    #[test]
    fn the_child_names_the_first_schema_that_is_refused() {
        assert_eq!(reply_to(&["{\"type\":\"object\"}", "true"]), Ok(()));
        for bad in [
            "{\"type\":7}",
            "{\"$ref\":\"http://127.0.0.1/schema.json\"}",
        ] {
            let (index, message) = reply_to(&["true", bad, bad]).unwrap_err();
            assert_eq!(index, 1);
            assert!(!message.is_empty());
        }
    }
}
