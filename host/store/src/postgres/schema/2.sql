-- One row: a secret that the hosts share. One signs with it what another checks.
CREATE TABLE host_secret (
  id integer PRIMARY KEY CHECK (id = 1),
  bytes bytea NOT NULL
);
INSERT INTO host_secret
  SELECT 1, sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));
