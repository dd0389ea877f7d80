//! Checks the Redis that a host would take jobs from, and the folder for their log files, if its
//! configuration names them.

use std::io::ErrorKind;
use std::path::Path;

use host_server::config::{Config, Flags, HeroConfig};
use host_server::doctor::redis_is_durable;
use host_server::hero_logs::LogRoot;

use super::Check;

/// Reads the configuration as `host serve` does, and asks the Redis that it names.
pub(super) fn checks() -> Vec<Check> {
    let config = match Config::load(&Flags::default()) {
        Ok(config) => config.hero,
        Err(error) => {
            let next = "docs/config.md has all keys and variables";
            return vec![Check::fail("configuration", error.to_string(), next)];
        }
    };
    let Some(config) = config else {
        return Vec::new();
    };
    let mut checks = vec![redis(&config)];
    checks.extend(config.log_dir.as_deref().map(log_dir));
    checks
}

fn redis(config: &HeroConfig) -> Check {
    let redis = &config.url;
    match redis_is_durable(config) {
        Ok(true) => Check::ok("redis", format!("{redis} keeps an append-only file")),
        Ok(false) => Check::warn(
            "redis",
            format!("{redis} keeps no append-only file: a crash of it loses jobs"),
            "set `appendonly yes` in its configuration; `appendfsync always` keeps the last second too",
        ),
        Err(why) => Check::warn(
            "redis",
            format!("{redis} cannot be asked: {why}"),
            "start it, or correct protocol.hero.url; a host connects as soon as it is there",
        ),
    }
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
            format!("{shown} is not there yet; a host makes it"),
        ),
        Err(error) => Check::fail(
            "log files",
            format!("log files below {shown} cannot be written: {error}"),
            "let the host's user write there, or name another folder with protocol.hero.log_dir",
        ),
    }
}
