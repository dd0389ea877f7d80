-- A state is its index in `host_core::job::STATES`: 2 is available, 3 running, 5 completed and later
-- ones have ended. Names are compared as bytes. Times are milliseconds since the Unix epoch.

-- The hosts. `epoch` grows each time one starts: a process with an earlier one writes no more. `batch`
-- is the number of the host's latest batch, which tells whether a commit landed.
CREATE TABLE host_nodes (
  number integer PRIMARY KEY,
  id uuid NOT NULL UNIQUE,
  epoch bigint NOT NULL,
  batch bigint NOT NULL,
  version text NOT NULL,
  seen_at timestamptz NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

CREATE SEQUENCE host_node_numbers AS integer;

-- One row: the number of the next change, and how often a queue was paused or resumed. Its lock gives
-- batches their order.
CREATE TABLE host_log (
  id integer PRIMARY KEY CHECK (id = 1),
  next_change bigint NOT NULL,
  pauses bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
INSERT INTO host_log VALUES (1, 1, 0);

-- The changes of each batch. `first` is the number of the first of them.
CREATE TABLE host_changes (
  first bigint PRIMARY KEY,
  node integer NOT NULL,
  batch bigint NOT NULL,
  at bigint NOT NULL,
  body bytea NOT NULL
);

CREATE TABLE host_queues (
  name text COLLATE "C" PRIMARY KEY,
  paused boolean NOT NULL DEFAULT FALSE
);

-- How many jobs of each queue have a state, as far as this node has changed it. The sum over nodes is
-- the number. State 8 counts the available jobs of foreign runners, which state 2 includes.
CREATE TABLE host_counts (
  node integer NOT NULL,
  queue text COLLATE "C" NOT NULL,
  state smallint NOT NULL,
  jobs bigint NOT NULL,
  PRIMARY KEY (node, queue, state)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

-- `seq` is the order of acceptance.
CREATE SEQUENCE host_seq;

-- The jobs that have not ended. `body` is the whole lifecycle; the other columns are for searching.
CREATE TABLE host_live (
  seq bigint PRIMARY KEY,
  id uuid NOT NULL UNIQUE,
  state smallint NOT NULL,
  queue text COLLATE "C" NOT NULL,
  priority smallint NOT NULL,
  suspect boolean NOT NULL,
  handler text COLLATE "C" NOT NULL,
  runner text COLLATE "C",
  wakeup_at bigint,
  body bytea NOT NULL
) WITH (
  fillfactor = 70,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX host_live_claim ON host_live (queue, priority, seq)
  WHERE state = 2 AND NOT suspect AND runner IS NULL;
CREATE INDEX host_live_suspect ON host_live (priority, seq)
  WHERE state = 2 AND suspect AND runner IS NULL;
CREATE INDEX host_live_runner ON host_live (runner, queue, priority, seq)
  WHERE state = 2 AND runner IS NOT NULL;
CREATE INDEX host_live_running ON host_live (seq) WHERE state = 3;
CREATE INDEX host_live_wakeup ON host_live (wakeup_at, seq) WHERE wakeup_at IS NOT NULL;

-- The jobs that have ended, until their retention is over.
CREATE TABLE host_ended (
  seq bigint PRIMARY KEY,
  id uuid NOT NULL UNIQUE,
  state smallint NOT NULL,
  queue text COLLATE "C" NOT NULL,
  priority smallint NOT NULL,
  suspect boolean NOT NULL,
  handler text COLLATE "C" NOT NULL,
  runner text COLLATE "C",
  wakeup_at bigint,
  body bytea NOT NULL
);
CREATE INDEX host_ended_state ON host_ended (state, seq);
CREATE INDEX host_ended_queue ON host_ended (queue, seq);
CREATE INDEX host_ended_handler ON host_ended (handler, seq);
CREATE INDEX host_ended_wakeup ON host_ended (wakeup_at, seq) WHERE wakeup_at IS NOT NULL;

-- What is written once.
CREATE TABLE host_payloads (
  job uuid PRIMARY KEY,
  params text NOT NULL,
  wire text NOT NULL,
  unique_key bytea,
  extra bytea
);

CREATE TABLE host_attempts (
  job uuid NOT NULL,
  number bigint NOT NULL,
  body bytea NOT NULL,
  progress bytea,
  result text,
  PRIMARY KEY (job, number)
);

-- Why a job failed after the attempt of that number; 0 is before the first.
CREATE TABLE host_failures (
  job uuid PRIMARY KEY,
  attempt bigint NOT NULL,
  body bytea NOT NULL
);

-- A row without a job is one that a batch makes to lock a key. No batch leaves it.
CREATE TABLE host_unique_keys (
  queue text COLLATE "C" NOT NULL,
  key bytea NOT NULL,
  job uuid,
  PRIMARY KEY (queue, key)
);
CREATE INDEX host_unique_keys_job ON host_unique_keys (job);

CREATE TABLE host_dependencies (
  prerequisite uuid NOT NULL,
  dependent uuid NOT NULL,
  seq bigint NOT NULL,
  PRIMARY KEY (prerequisite, dependent)
);
CREATE INDEX host_dependencies_dependent ON host_dependencies (dependent);

-- `current` of a removed component is its last revision as a negative number.
CREATE TABLE host_components (
  name text COLLATE "C" PRIMARY KEY,
  current bigint NOT NULL
);
CREATE TABLE host_revisions (
  component text COLLATE "C" NOT NULL,
  revision bigint NOT NULL,
  digest bytea NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (component, revision)
);
CREATE TABLE host_blobs (
  digest bytea PRIMARY KEY,
  bytes bytea NOT NULL
);
