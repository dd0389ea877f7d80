//! Finds out which protection this system offers, by asking a child in the sandbox of a cell.

use std::io;
use std::time::Duration;

use host_core::cell::Protection;
use thiserror::Error;
use tokio::io::AsyncReadExt as _;

use crate::sandbox::child::{CellProgram, Child, Order};

/// How long the child may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Why the protection is unknown or insufficient.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtectionError {
    #[error("cannot find out how this system sandboxes cells: {0}")]
    Unknown(String),
    #[error(
        "cells are not fully sandboxed on this system: {0}; use Linux 5.13 or later with Landlock, allow \
         user namespaces, or accept the risk with cells.allow_weak = true (--allow-weak true)"
    )]
    Weak(String),
}

/// Asks a child. Refuses a system without the required protection, unless weak sandboxes are allowed.
pub async fn probe(program: &CellProgram) -> Result<Protection, ProtectionError> {
    let answer = tokio::time::timeout(TIMEOUT, ask(program));
    let protection = answer
        .await
        .unwrap_or_else(|_| Err(format!("it took longer than {} s", TIMEOUT.as_secs())))
        .map_err(ProtectionError::Unknown)?;
    if !protection.missing.is_empty() {
        let missing = protection.missing.join(", ");
        if !program.confinement.allow_weak {
            return Err(ProtectionError::Weak(missing));
        }
        tracing::warn!(
            missing,
            "cells are not fully sandboxed (allowed by cells.allow_weak)"
        );
    }
    if !protection.reduced.is_empty() {
        let reduced = protection.reduced.join(", ");
        tracing::info!(
            reduced,
            "cells have all required protection, but not all optional protection"
        );
    }
    Ok(protection)
}

async fn ask(program: &CellProgram) -> Result<Protection, String> {
    let failed = |error: io::Error| format!("the child failed: {error}");
    let order = Order {
        words: &["cell".to_owned(), "probe".to_owned()],
        reads: true,
        has_pipes: true,
        ..Order::default()
    };
    let mut child = Child::start(program, order).map_err(failed)?;
    drop(child.stdin.take());
    let (Some(stdout), Some(stderr)) = (child.stdout.take(), child.stderr.take()) else {
        return Err("the child has no pipes".to_owned());
    };
    let (mut answer, mut errors) = (Vec::new(), String::new());
    let (mut stdout, mut stderr) = (stdout.take(ANSWER_BYTES_MAX), stderr.take(ANSWER_BYTES_MAX));
    let (read, _) = tokio::join!(
        stdout.read_to_end(&mut answer),
        stderr.read_to_string(&mut errors)
    );
    read.map_err(failed)?;
    let status = child.wait().await.map_err(failed)?;
    serde_json::from_slice(&answer)
        .map_err(|_| format!("the child ended with {status}: {}", errors.trim()))
}

#[cfg(test)]
mod tests {
    use tempfile::TempDir;

    use super::*;
    use crate::sandbox::child::Confinement;
    use crate::sandbox::child::tests::write_script;

    /// A program that prints this and ends.
    fn printing(folder: &TempDir, answer: &str, allow_weak: bool) -> CellProgram {
        let exe = folder.path().join("program");
        write_script(&exe, &format!("echo '{answer}'"));
        CellProgram {
            exe,
            engine_hash: String::new(),
            confinement: Confinement {
                allow_weak,
                ..Confinement::default()
            },
        }
    }

    #[tokio::test]
    async fn a_host_asks_how_cells_are_confined_and_refuses_too_little() {
        let folder = TempDir::new().unwrap();
        let weak = r#"{"missing":["x"],"reduced":[]}"#;
        let less = r#"{"missing":[],"reduced":["y"]}"#;
        let refused = probe(&printing(&folder, weak, false)).await;
        assert_eq!(refused, Err(ProtectionError::Weak("x".to_owned())));
        let allowed = probe(&printing(&folder, weak, true)).await.unwrap();
        assert_eq!(allowed.missing, ["x"]);
        let reduced = probe(&printing(&folder, less, false)).await.unwrap();
        assert_eq!(reduced.reduced, ["y"]);
        let unknown = probe(&printing(&folder, "x", true)).await;
        assert!(
            matches!(unknown, Err(ProtectionError::Unknown(_))),
            "{unknown:?}"
        );
    }
}
