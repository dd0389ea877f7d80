//! Limits that many jobs wait for, and many limits.

use anyhow::Result;
use host_tests::Client;
use serde_json::json;

use super::runs::run_all;
use super::{call, fill, until};
use crate::Stage;

/// As many limits as a host takes.
const LIMITS: usize = 1_000;

/// Jobs that wait for the one that has the place. It does not start, because their queue is paused.
pub(super) fn waiting(client: &Client, size: usize) -> Result<()> {
    client.run(&json!({"handler": "noop", "queue": "limited"}));
    call(client, "POST", "/api/v1/queues/limited/pause", &json!({}))?;
    set(client, "raised", "limited", 1)?;
    fill(
        client,
        size,
        |_| json!({"handler": "noop", "params": {}, "queue": "limited"}),
    )
}

/// Admits all of them.
pub(super) fn raise(stage: &Stage, size: usize) -> Result<()> {
    let client = stage.server.client();
    set(&client, "raised", "limited", size)?;
    until(&client, "limited", "available", size);
    Ok(())
}

/// Limits by patterns, all of which are tried for each new job.
pub(super) fn set_many(client: &Client, _: usize) -> Result<()> {
    (0..LIMITS).try_for_each(|n| set(client, &format!("limit-{n}"), &format!("*-{n}"), 16))
}

/// Jobs each of which one of these limits concerns.
pub(super) fn enqueue(stage: &Stage, size: usize) -> Result<()> {
    run_all(&stage.server.client(), size, LIMITS)
}

fn set(client: &Client, name: &str, queue: &str, concurrency: usize) -> Result<()> {
    let limit = json!({"match": {"queue": queue}, "concurrency": concurrency});
    call(client, "PUT", &format!("/api/v1/limits/{name}"), &limit)?;
    Ok(())
}
