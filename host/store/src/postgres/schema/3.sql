-- The logs of guests. `n` is the order in which they were kept. Text may have any character, which `text`
-- may not.
CREATE TABLE host_logs (
  n bigint PRIMARY KEY,
  job uuid NOT NULL,
  attempt bigint NOT NULL,
  at bigint NOT NULL,
  level smallint NOT NULL,
  source smallint NOT NULL,
  message bytea NOT NULL,
  fields text
) WITH (autovacuum_vacuum_threshold = 10000, autovacuum_vacuum_scale_factor = 0.05);
CREATE INDEX host_logs_job ON host_logs (job, n);

-- One row: the number of the next line, and about how many bytes all lines take. Its lock gives lines
-- their order, so that whoever follows a log misses none.
CREATE TABLE host_logs_end (
  id integer PRIMARY KEY CHECK (id = 1),
  next bigint NOT NULL,
  bytes bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
INSERT INTO host_logs_end VALUES (1, 1, 0);
