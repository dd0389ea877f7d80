//! The checks of doctor for Hero: whether its Redis stores data durably, and whether jobs can have
//! log files.

use std::io::ErrorKind;
use std::path::Path;

use host_wire_kit::check::Check;

use super::log_files::LogRoot;
use super::settings::HeroConfig;
use super::transport::is_durable;

/// Runs all checks. Blocks for a few seconds at most.
pub(super) fn all(config: &HeroConfig) -> Vec<Check> {
    let mut checks = vec![redis(config)];
    checks.extend(config.log_dir.as_deref().map(log_dir));
    checks
}

fn redis(config: &HeroConfig) -> Check {
    let redis = &config.url;
    match ask_durable(config) {
        Ok(true) => Check::ok("redis", format!("{redis} keeps an append-only file")),
        Ok(false) => Check::warn(
            "redis",
            format!("{redis} keeps no append-only file: a crash of it loses jobs"),
            "set `appendonly yes` in its configuration; `appendfsync always` keeps the last second too",
        ),
        Err(why) => Check::warn(
            "redis",
            format!("cannot query {redis}: {why}"),
            "start it, or correct protocol.hero.url; a host connects as soon as it is reachable",
        ),
    }
}

/// Asks Redis whether it writes each change to disk. The error is for people and has no secrets.
fn ask_durable(config: &HeroConfig) -> Result<bool, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?
        .block_on(is_durable(&config.url))
}

fn log_dir(dir: &Path) -> Check {
    let shown = dir.display();
    match LogRoot::new(dir).check() {
        Ok(()) => Check::ok(
            "log files",
            format!("jobs may name log files below {shown}"),
        ),
        Err(error) if error.kind() == ErrorKind::NotFound => Check::ok(
            "log files",
            format!("{shown} does not exist yet; a host creates it"),
        ),
        Err(error) => Check::fail(
            "log files",
            format!("log files below {shown} cannot be written: {error}"),
            "let the host's user write there, or name another folder with protocol.hero.log_dir",
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::parsed;
    use host_wire_kit::check::Status;

    #[test]
    fn a_redis_that_is_away_and_a_bad_folder_are_found() {
        let folder = tempfile::TempDir::new().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let missing = folder.path().join("missing");
        let table = [
            (folder.path(), Status::Ok),
            (&missing, Status::Ok),
            (&file, Status::Fail),
        ];
        for (dir, status) in table {
            let url = ("url", "redis://me:hush@127.0.0.1:1");
            let found = all(&parsed(&[url, ("log_dir", dir.to_str().unwrap())]));
            let statuses: Vec<Status> = found.iter().map(|check| check.status).collect();
            assert_eq!(statuses, [Status::Warn, status], "{}", dir.display());
            assert!(found.iter().all(|check| !check.found.contains("hush")));
        }
        let alone = parsed(&[("url", "redis://127.0.0.1:1")]);
        assert_eq!(all(&alone).len(), 1);
    }
}
