-- How far running jobs are, as their nodes were told last. Each node takes away what it has put there. `n` grows
-- with each report of a node.
CREATE TABLE host_progress (
  job uuid PRIMARY KEY,
  node integer NOT NULL,
  n bigint NOT NULL,
  attempt bigint NOT NULL,
  at bigint NOT NULL,
  body bytea NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
CREATE SEQUENCE host_progress_numbers;
