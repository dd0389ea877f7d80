-- What a node must do about a job that it runs, because another node has changed it: stop it, or give it
-- up. The node takes it away.
CREATE TABLE host_mail (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  node integer NOT NULL,
  job uuid NOT NULL,
  body bytea NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
CREATE INDEX host_mail_node ON host_mail (node, id);
