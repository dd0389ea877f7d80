-- How each host lives: in rows that no batch locks, so that a heartbeat waits for none. `epoch` is that of
-- `host_nodes`. `life` is 0 for a host that lives, 1 for one that has ended and said so, and 2 if another
-- has taken what it left. `ahead` is its host time minus the time of the database, in milliseconds.
CREATE TABLE host_beats (
  node integer PRIMARY KEY,
  epoch bigint NOT NULL,
  beat bigint NOT NULL,
  life smallint NOT NULL,
  ahead bigint NOT NULL,
  seen_at timestamptz NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
INSERT INTO host_beats SELECT number, epoch, 0, 0, 0, seen_at FROM host_nodes;
