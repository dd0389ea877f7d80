//! Finds out which protection this system offers and whether it can run guests, by asking a child in the sandbox of a
//! cell.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::time::Duration;

use host_core::cell::{Probe, Protection};
use host_runtime::ids;
use thiserror::Error;
use tokio::io::AsyncReadExt as _;

use crate::sandbox::child::{CellProgram, Child, Order};
use crate::sandbox::needs;

/// How long the child may take.
const TIMEOUT: Duration = Duration::from_secs(15);

/// The longest answer, in bytes.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// Why no cell can run here.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ProtectionError {
    #[error(
        "cells are not fully sandboxed on this system: {0}; use Linux 5.13 or later with Landlock, allow \
         user namespaces, or accept the risk with cells.allow_weak = true (--allow-weak true)"
    )]
    Weak(String),
    #[error("cells cannot run guests on this system: {failure}; {advice}")]
    Unusable { failure: String, advice: String },
}

/// An open file for machine code, without a name.
#[derive(Debug)]
pub struct CodeFile {
    file: File,
    /// The advice if machine code in it cannot run.
    advice: String,
}

impl CodeFile {
    /// Makes one in `folder`.
    pub fn make(folder: &Path) -> Result<Self, ProtectionError> {
        let advice = needs::advice(folder);
        match make_file(folder) {
            Ok(file) => Ok(Self { file, advice }),
            Err(error) => Err(ProtectionError::Unusable {
                failure: format!("cannot make a file in {}: {error}", folder.display()),
                advice,
            }),
        }
    }
}

/// Asks a child with `slots` slots, which runs machine code from `code`. Refuses a system that cannot run guests and one
/// without the required protection, unless weak sandboxes are allowed.
pub async fn probe(
    program: &CellProgram,
    code: CodeFile,
    slots: u32,
) -> Result<Protection, ProtectionError> {
    let CodeFile { file, advice } = code;
    let unusable = |failure: String| ProtectionError::Unusable {
        failure,
        advice: advice.clone(),
    };
    let answer = tokio::time::timeout(TIMEOUT, ask(program, file, slots));
    let Probe {
        protection,
        failure,
    } = answer
        .await
        .unwrap_or_else(|_| Err(format!("it took longer than {} s", TIMEOUT.as_secs())))
        .map_err(unusable)?;
    if let Some(failure) = failure {
        return Err(unusable(failure));
    }
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

/// Makes a file without a name.
fn make_file(folder: &Path) -> io::Result<File> {
    let path = folder.join(format!("probe-{}", ids::unique()));
    let file = File::options()
        .read(true)
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&path)?;
    fs::remove_file(&path)?;
    Ok(file)
}

async fn ask(program: &CellProgram, code: File, slots: u32) -> Result<Probe, String> {
    let failed = |error: io::Error| format!("the child failed: {error}");
    let words = ["cell", "probe", "--fd=3", &format!("--slots={slots}")].map(str::to_owned);
    let order = Order {
        words: &words,
        handed: vec![code.into()],
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
            quick: false,
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
        let ask = async |answer, allow_weak| {
            let program = printing(&folder, answer, allow_weak);
            probe(&program, CodeFile::make(folder.path()).unwrap(), 1).await
        };
        let refused = ask(weak, false).await;
        assert_eq!(refused, Err(ProtectionError::Weak("x".to_owned())));
        let allowed = ask(weak, true).await.unwrap();
        assert_eq!(allowed.missing, ["x"]);
        let reduced = ask(less, false).await.unwrap();
        assert_eq!(reduced.reduced, ["y"]);
        let useless = r#"{"missing":[],"reduced":[],"failure":"cannot map"}"#;
        for (answer, words) in [("x", "the child ended"), (useless, "cannot map")] {
            let unusable = ask(answer, true).await.unwrap_err().to_string();
            assert!(unusable.contains(words), "{unusable}");
        }
    }
}
