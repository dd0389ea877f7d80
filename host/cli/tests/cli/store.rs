//! `host store`, as far as there is no database; what it does with one is tested with a server.

use tempfile::TempDir;

use crate::canned::{Transcript, run_alone};

#[test]
fn where_there_is_nothing() {
    let mut seen = Transcript::new("store_where_there_is_nothing");
    let temporary = TempDir::new().unwrap();
    let folder = temporary.path().display().to_string();
    let unreachable = "postgres://me@127.0.0.1:1/jobs";
    for arguments in [
        &["status"][..],
        &["copy", "--from", &folder],
        &["status", "--store", unreachable],
        &["migrate", "--store", unreachable],
        &["check", "--store", unreachable],
        &["copy", "--from", unreachable, "--to", &folder],
    ] {
        let ran = run_alone(&[&["store"], arguments].concat());
        seen.add(&ran.replace(&folder, "DIR"));
    }
    seen.check();
}
