//! `host backup` and `host restore`, as far as there is nothing to copy; what they copy is tested with a
//! running host.

use tempfile::TempDir;

use crate::canned::{Transcript, run_alone};

#[test]
fn help() {
    let mut seen = Transcript::new("backup_help");
    seen.add(&run_alone(&["backup", "--help"]));
    seen.add(&run_alone(&["restore", "--help"]));
    seen.check();
}

#[test]
fn where_there_is_nothing() {
    let mut seen = Transcript::new("backup_where_there_is_nothing");
    let folder = TempDir::new().unwrap();
    let at = |name: &str| folder.path().join(name).display().to_string();
    let (data, copy, node) = (at("data"), at("copy.db"), at("node"));
    let (own, inside, file) = (at("own"), at("own/a/copy"), at("own/copy.db"));
    std::fs::create_dir(&own).unwrap();
    std::fs::write(at("own/host.db"), "").unwrap();
    // The jobs of this one are in a database.
    std::fs::create_dir(&node).unwrap();
    std::fs::write(folder.path().join("node/node"), "").unwrap();
    for arguments in [
        &["backup", "--data", &data, "--to", &copy][..],
        &["backup", "--data", &node, "--to", &copy],
        &["store", "check", "--data", &node],
        &["backup", "--data", &own, "--to", &inside],
        &["backup", "--data", &own, "--to", &file],
        &["backup", "--data", &data],
        &["restore", &copy, "--data", &data],
    ] {
        let ran = run_alone(arguments);
        seen.add(&ran.replace(&folder.path().display().to_string(), "DIR"));
    }
    seen.check();
}
