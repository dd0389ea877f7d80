-- Whether an operator wants a node to start no more jobs. It stays so when the node starts again.
ALTER TABLE host_beats ADD COLUMN drain boolean NOT NULL DEFAULT FALSE;

-- What each node says of itself, as JSON. Apart from its heartbeats, because it changes less often.
CREATE TABLE host_cards (
  node integer PRIMARY KEY,
  epoch bigint NOT NULL,
  card text NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
