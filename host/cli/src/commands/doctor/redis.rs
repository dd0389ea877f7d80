//! Checks the Redis that a host would take jobs from, if its configuration names one.

use host_server::config::{Config, Flags};
use host_server::doctor::redis_is_durable;

use super::Check;

/// Reads the configuration as `host serve` does, and asks the Redis that it names.
pub(super) fn checks() -> Option<Check> {
    let config = match Config::load(&Flags::default()) {
        Ok(config) => config.hero?,
        Err(error) => {
            let next = "docs/config.md has all keys and variables";
            return Some(Check::fail("configuration", error.to_string(), next));
        }
    };
    let redis = &config.url;
    Some(match redis_is_durable(&config) {
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
    })
}
