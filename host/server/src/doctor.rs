//! Looks at what a host depends on beside its machine, for `host doctor`.

use host_protocols::hero::is_durable;

use crate::config::HeroConfig;

/// Asks the Redis of Hero's jobs whether it writes each change to disk. Blocks for at most some
/// seconds; the error is for people and has no secrets.
pub fn redis_is_durable(config: &HeroConfig) -> Result<bool, String> {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| error.to_string())?
        .block_on(is_durable(&config.url))
}
