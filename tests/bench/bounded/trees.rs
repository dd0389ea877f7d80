//! Jobs that depend on each other, or end together.

use anyhow::{Context, Result};
use host_tests::{Client, eventually};
use serde_json::{Value, json};

use super::{ARRAY, PATIENCE, call, concurrently, fill, fill_at, later, until};
use crate::Stage;

/// How many requests with as many dependencies as are allowed are sent together, and how many jobs a job waits for.
const REQUESTS: usize = 16;
const WAITS_FOR: usize = 10;

/// The key of the job for which all others of a tree wait.
const ROOT: &str = "root";

/// Concurrent arrays whose jobs wait for others of the array.
pub(super) fn dependencies(stage: &Stage, _: usize) -> Result<()> {
    let job = |n: usize| {
        let first = n.saturating_sub(WAITS_FOR);
        let named: Vec<_> = (first..n).map(|n| format!("#{n}")).collect();
        json!({"handler": "noop", "params": {}, "queue": "tree", "depends_on": named})
    };
    let array = Value::Array((0..ARRAY).map(job).collect());
    concurrently(REQUESTS, || {
        call(&stage.server.client(), "POST", "/api/v1/jobs", &array)?;
        Ok(())
    })
}

/// Jobs that wait for one.
pub(super) fn tree(client: &Client, size: usize) -> Result<()> {
    let mut root = later(0);
    root["unique_key"] = ROOT.into();
    let root = call(client, "POST", "/api/v1/jobs", &root)?;
    let id = &root["id"];
    fill(
        client,
        size,
        |_| json!({"handler": "noop", "params": {}, "queue": "tree", "depends_on": [id]}),
    )
}

pub(super) fn cancel_tree(stage: &Stage, size: usize) -> Result<()> {
    let client = stage.server.client();
    let roots = client.items(&format!("/api/v1/jobs?unique_key={ROOT}"));
    let root = roots
        .first()
        .and_then(|root| root["id"].as_str())
        .context("no root")?;
    let cancel = format!("/api/v1/jobs/{root}/cancel");
    call(&client, "POST", &cancel, &json!({}))?;
    until(&client, "tree", "discarded", size);
    Ok(())
}

/// Jobs of one batch.
pub(super) fn batch(client: &Client, size: usize) -> Result<()> {
    let made = call(client, "POST", "/api/v1/batches", &json!({"open": true}))?;
    let id = made["batch"]["id"].as_str().context("a batch has an id")?;
    fill_at(client, &format!("/api/v1/batches/{id}/jobs"), size, later)
}

pub(super) fn cancel_batch(stage: &Stage, size: usize) -> Result<()> {
    let client = stage.server.client();
    let batches = client.items("/api/v1/batches");
    let id = batches.first().and_then(|batch| batch["id"].as_str());
    let batch = format!("/api/v1/batches/{}", id.context("no batch")?);
    call(&client, "POST", &format!("{batch}/cancel"), &json!({}))?;
    eventually("the jobs of the batch to be cancelled", PATIENCE, || {
        let batch = client.get(&batch).ok()?.body;
        (batch["counts"]["cancelled"] == size).then_some(())
    });
    Ok(())
}
