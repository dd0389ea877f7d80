//! Fills a store with waiting and ended jobs: two jobs from a host are copied in the database, each copy with
//! an id of its own.

use anyhow::{Result, ensure};
use host_tests::Cluster;
use serde_json::json;

use crate::Stage;

const QUEUE: &str = "waiting";

/// Copies the only job of a queue in a table. The id is at the third byte of a job's record.
fn copies(table: &str, state: u8, jobs: usize) -> String {
    format!(
        "CREATE TEMP TABLE new ON COMMIT DROP AS \
           SELECT nextval('host_seq') AS seq, gen_random_uuid() AS id FROM generate_series(1, {jobs}); \
         INSERT INTO host_payloads (job, params, wire) \
           SELECT new.id, params, wire FROM new, host_payloads \
           WHERE job = (SELECT id FROM {table} WHERE queue = '{QUEUE}' LIMIT 1); \
         INSERT INTO {table} (seq, id, state, queue, priority, suspect, handler, wakeup_at, body, rank) \
           SELECT new.seq, new.id, state, queue, priority, suspect, handler, wakeup_at, \
             substring(body FROM 1 FOR 2) || uuid_send(new.id) || substring(body FROM 19), new.seq \
           FROM new, (SELECT * FROM {table} WHERE queue = '{QUEUE}' LIMIT 1) AS first; \
         INSERT INTO host_counts AS old (node, queue, state, jobs) \
           SELECT min(number), '{QUEUE}', {state}, {jobs} FROM host_nodes \
           ON CONFLICT (node, queue, state) DO UPDATE SET jobs = old.jobs + EXCLUDED.jobs;"
    )
}

/// Makes the jobs, and ends the host that made the first of them.
pub(crate) fn fill(cluster: &Cluster, stage: Stage, waiting: usize, ended: usize) -> Result<()> {
    let client = stage.server.client();
    let job = json!({"handler": "noop", "params": {"n": 12345}, "queue": QUEUE});
    client.run(&job);
    let paused = client.post(&format!("/api/v1/queues/{QUEUE}/pause"), &json!({}))?;
    ensure!(paused.status == 200, "cannot pause: {}", paused.body);
    client.enqueue(&job);
    stage.stop()?;
    for (table, state, jobs) in [("host_live", 2, waiting), ("host_ended", 5, ended)] {
        let sql = copies(table, state, jobs);
        let sql = format!("SET search_path = seeded; BEGIN; {sql} COMMIT;");
        ensure!(cluster.execute(&sql), "cannot fill {table}");
    }
    let tables = "host_live, host_ended, host_payloads, host_counts";
    ensure!(
        cluster.execute(&format!(
            "SET search_path = seeded; VACUUM ANALYZE {tables}; CHECKPOINT"
        )),
        "cannot analyze the new rows"
    );
    Ok(())
}
