//! The bare statements of a queue: one transaction completes a batch, inserts as many jobs and claims as
//! many, sent together, by `pgbench` over one connection.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use host_tests::Cluster;

/// A minimal table for a queue. A job has the size of a no-op's row and its params.
const TABLE: &str = "
DROP TABLE IF EXISTS bare;
CREATE TABLE bare (
  seq bigserial PRIMARY KEY,
  id uuid NOT NULL UNIQUE,
  state smallint NOT NULL,
  body bytea NOT NULL,
  params text NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX bare_claim ON bare (seq) WHERE state = 2;
CREATE INDEX bare_running ON bare (seq) WHERE state = 3;";

const BATCH: &str = r#"
\startpipeline
BEGIN;
UPDATE bare SET state = 5 WHERE state = 3;
INSERT INTO bare (id, state, body, params) SELECT gen_random_uuid(), 2,
  '\x0310019900000000700080000000000000010507646566', '{"n":12345}' FROM generate_series(1, :batch);
UPDATE bare SET state = 3 WHERE seq IN
  (SELECT seq FROM bare WHERE state = 2 ORDER BY seq LIMIT :batch FOR UPDATE SKIP LOCKED)
  RETURNING id, params;
COMMIT;
\endpipeline
"#;

/// Returns how many jobs per second the server moves through all three.
pub(crate) fn rate(cluster: &Cluster, batch: f64, span: Duration) -> Result<f64> {
    ensure!(
        cluster.execute(TABLE),
        "cannot make the table of the bare statements"
    );
    let script = tempfile::NamedTempFile::new().context("cannot make a file")?;
    std::fs::write(&script, BATCH).context("cannot write a file")?;
    let readable = std::os::unix::fs::PermissionsExt::from_mode(0o644);
    std::fs::set_permissions(&script, readable).context("cannot open a file")?;
    let mut pgbench = cluster.command(&Cluster::program("pgbench"));
    pgbench.args([
        "--no-vacuum",
        "--protocol",
        "prepared",
        "--username",
        "postgres",
    ]);
    pgbench.arg("--host").arg(cluster.folder());
    pgbench.arg("--time").arg(span.as_secs().max(1).to_string());
    pgbench.arg("--define").arg(format!("batch={batch}"));
    pgbench.arg("--file").arg(script.path()).arg("postgres");
    // The host's planner settings: otherwise the server scans the whole table again and again.
    pgbench.env("PGOPTIONS", "-c enable_seqscan=off -c jit=off");
    let message = pgbench.output().context("cannot start pgbench")?;
    let text = String::from_utf8_lossy(&message.stdout);
    let tps = text.lines().find_map(|line| line.strip_prefix("tps = "));
    let tps = tps.and_then(|rest| rest.split(' ').next()?.parse::<f64>().ok());
    let tps = tps.with_context(|| String::from_utf8_lossy(&message.stderr).into_owned())?;
    Ok(tps * batch)
}
