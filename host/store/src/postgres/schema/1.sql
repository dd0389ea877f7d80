-- A state is its index in `host_core::job::STATES`: 2 is available, 3 running, 5 completed and later
-- ones have ended. Names are compared as bytes. Times are milliseconds since the Unix epoch.

-- The hosts. `epoch` grows each time one starts, which fences its earlier processes. `batch` is the number of the
-- host's latest batch, which shows whether a commit landed.
CREATE TABLE host_nodes (
  number integer PRIMARY KEY,
  id uuid NOT NULL UNIQUE,
  epoch bigint NOT NULL,
  batch bigint NOT NULL,
  version text NOT NULL,
  seen_at timestamptz NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

CREATE SEQUENCE host_node_numbers AS integer;

-- The heartbeats of hosts, in rows that no batch locks. `epoch` is that of `host_nodes`. `life` is 0 for a live
-- host, 1 for one that left, and 2 once another host has taken over its jobs. `ahead` is its host time minus
-- the time of the database, in milliseconds. `drain` is set by an operator and survives a restart.
CREATE TABLE host_beats (
  node integer PRIMARY KEY,
  epoch bigint NOT NULL,
  beat bigint NOT NULL,
  life smallint NOT NULL,
  ahead bigint NOT NULL,
  seen_at timestamptz NOT NULL,
  drain boolean NOT NULL DEFAULT FALSE
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

-- What each node reports about itself, as JSON; apart from its heartbeats because it changes less often.
-- `components` has, by the name of each deployed component, the revision that the node has loaded, and why it
-- cannot run it.
CREATE TABLE host_node_info (
  node integer PRIMARY KEY,
  epoch bigint NOT NULL,
  info text NOT NULL,
  components text NOT NULL DEFAULT ''
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

-- One row: the number of the next change, how often a queue was paused or resumed, and how often a limit was changed. Its
-- lock is for numbering changes: no batch takes it, unless it changes one of these.
CREATE TABLE host_log (
  id integer PRIMARY KEY CHECK (id = 1),
  next_change bigint NOT NULL,
  pauses bigint NOT NULL,
  limits_changed bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
INSERT INTO host_log VALUES (1, 1, 0, 0);

-- The changes of each batch, at most 1,000 in a row. `id` belongs to the batch: one that has seen another has a larger
-- id. `place` is how many changes of the batch come before the row. `first` is the number of the row's first change,
-- once it has one. `counts`, in the first row of a batch, is what other nodes need to follow the numbers of queues.
CREATE SEQUENCE host_change_ids;
CREATE TABLE host_changes (
  id bigint NOT NULL DEFAULT nextval('host_change_ids'),
  place bigint NOT NULL DEFAULT 0,
  first bigint UNIQUE,
  count bigint NOT NULL,
  node integer NOT NULL,
  batch bigint NOT NULL,
  at bigint NOT NULL,
  body bytea NOT NULL,
  counts bytea,
  PRIMARY KEY (id, place)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
CREATE INDEX host_changes_fresh ON host_changes (id, place) WHERE first IS NULL;

CREATE TABLE host_queues (
  name text COLLATE "C" PRIMARY KEY,
  paused boolean NOT NULL DEFAULT FALSE
);

-- The number of jobs by queue and state, as changed by one node: the sum over nodes counts. State 8 counts the
-- available jobs of foreign runners, which state 2 includes.
CREATE TABLE host_counts (
  node integer NOT NULL,
  queue text COLLATE "C" NOT NULL,
  state smallint NOT NULL,
  jobs bigint NOT NULL,
  PRIMARY KEY (node, queue, state)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
CREATE INDEX host_counts_queue ON host_counts (queue, state);

-- `seq` is the order of acceptance.
CREATE SEQUENCE host_seq;

-- The jobs that have not ended. `body` is the whole lifecycle; the other columns are for searching. `rank` is the order of
-- claims: `seq`, or a later number if the job has waited for a limit. `waits_for` is the key of a limit that it waits for,
-- behind the limit's number.
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
  body bytea NOT NULL,
  rank bigint NOT NULL,
  waits_for text COLLATE "C",
  batch uuid
) WITH (
  fillfactor = 70,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_cost_delay = 0
);
CREATE INDEX host_live_claim ON host_live (queue, priority, rank)
  WHERE state = 2 AND NOT suspect AND runner IS NULL;
CREATE INDEX host_live_suspect ON host_live (priority, rank)
  WHERE state = 2 AND suspect AND runner IS NULL;
CREATE INDEX host_live_runner ON host_live (runner, queue, priority, rank)
  WHERE state = 2 AND runner IS NOT NULL;
-- Whether a handler of our cells is still needed, and for lists.
CREATE INDEX host_live_handler ON host_live (handler, state, seq) WHERE runner IS NULL;
CREATE INDEX host_live_waiting ON host_live (waits_for, priority, seq) WHERE waits_for IS NOT NULL;
CREATE INDEX host_live_batch ON host_live (batch, seq) WHERE batch IS NOT NULL;
CREATE INDEX host_live_running ON host_live (seq) WHERE state = 3;
-- For lists. States that most jobs pass through quickly have no index of their own.
CREATE INDEX host_live_queue ON host_live (queue, state, seq);
CREATE INDEX host_live_state ON host_live (state, seq) WHERE state NOT IN (2, 3);
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
  body bytea NOT NULL,
  rank bigint NOT NULL,
  waits_for text COLLATE "C",
  batch uuid
);
CREATE INDEX host_ended_batch ON host_ended (batch, seq) WHERE batch IS NOT NULL;
CREATE INDEX host_ended_batch_discarded ON host_ended (batch, seq) WHERE batch IS NOT NULL AND state = 7;
CREATE INDEX host_ended_state ON host_ended (state, seq);
CREATE INDEX host_ended_queue ON host_ended (queue, state, seq);
CREATE INDEX host_ended_handler ON host_ended (handler, state, seq);
CREATE INDEX host_ended_wakeup ON host_ended (wakeup_at, seq) WHERE wakeup_at IS NOT NULL;

-- The immutable part of a job.
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

-- A batch makes a row without a job to lock a key, and never commits it.
CREATE TABLE host_unique_keys (
  queue text COLLATE "C" NOT NULL,
  key bytea NOT NULL,
  job uuid,
  PRIMARY KEY (queue, key)
);
CREATE INDEX host_unique_keys_job ON host_unique_keys (job);

-- The dependencies that are not settled: `dependent`, at the place `seq`, still waits for `prerequisite`.
CREATE TABLE host_dependencies (
  prerequisite uuid NOT NULL,
  dependent uuid NOT NULL,
  seq bigint NOT NULL,
  PRIMARY KEY (prerequisite, seq)
);
CREATE INDEX host_dependencies_dependent ON host_dependencies (dependent);

-- Ended jobs whose dependents ticks go on to settle, in the order of `n`.
CREATE TABLE host_cascades (
  n bigint GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY,
  prerequisite uuid NOT NULL UNIQUE,
  state smallint NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

-- The state that handlers keep. A space is `handler:NAME` or `shared:NAME`.
CREATE TABLE host_state (
  space text COLLATE "C" NOT NULL,
  key text COLLATE "C" NOT NULL,
  at bigint NOT NULL,
  value bytea NOT NULL,
  PRIMARY KEY (space, key)
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02);

-- How much each space has: `bytes` are those of keys and values, and 64 for each key. A batch that changes a space
-- holds the lock of its row, which stays when its last key is gone.
CREATE TABLE host_state_spaces (
  space text COLLATE "C" PRIMARY KEY,
  keys bigint NOT NULL,
  bytes bigint NOT NULL
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

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

-- The logs of guests. `n` is the order in which they were stored. `message` is bytea because it may contain
-- NUL, which text cannot.
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

-- One row: the number of the next line, and about how many bytes all lines take. Its lock
-- orders lines, so that a follower of a log misses none.
CREATE TABLE host_logs_end (
  id integer PRIMARY KEY CHECK (id = 1),
  next bigint NOT NULL,
  bytes bigint NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
INSERT INTO host_logs_end VALUES (1, 1, 0);

-- What a node must do about a job that it runs and another node has changed: stop it, or give it up. The node
-- deletes its rows.
CREATE TABLE host_mail (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  node integer NOT NULL,
  job uuid NOT NULL,
  body bytea NOT NULL
) WITH (autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
CREATE INDEX host_mail_node ON host_mail (node, id);

-- The latest progress of running jobs. Each node deletes the rows that it wrote. `n` grows with each report of
-- a node.
CREATE TABLE host_progress (
  job uuid PRIMARY KEY,
  node integer NOT NULL,
  n bigint NOT NULL,
  attempt bigint NOT NULL,
  at bigint NOT NULL,
  body bytea NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
CREATE SEQUENCE host_progress_numbers;

-- One row: a secret that the hosts share. One signs with it what another checks.
CREATE TABLE host_secret (
  id integer PRIMARY KEY CHECK (id = 1),
  bytes bytea NOT NULL
);
INSERT INTO host_secret
  SELECT 1, sha256(uuid_send(gen_random_uuid()) || uuid_send(gen_random_uuid()));

-- `body` is the token as JSON, with the SHA-256 of its text.
CREATE TABLE host_tokens (
  id text COLLATE "C" PRIMARY KEY,
  body text NOT NULL,
  used_at bigint
) WITH (fillfactor = 70);

-- How many jobs of principals with a limit have not ended, as changed by one node: the sum over nodes counts.
CREATE TABLE host_owned (
  node integer NOT NULL DEFAULT 0,
  principal text COLLATE "C" NOT NULL,
  jobs bigint NOT NULL,
  PRIMARY KEY (node, principal)
) WITH (fillfactor = 20, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);

-- One row: `version` grows with each change of tokens, so that nodes know when to read them again.
CREATE TABLE host_access (
  id integer PRIMARY KEY CHECK (id = 1),
  version bigint NOT NULL
) WITH (fillfactor = 10);
INSERT INTO host_access VALUES (1, 0);

-- Each entry has the hash of the one before it.
CREATE TABLE host_audit (
  number bigint PRIMARY KEY,
  at bigint NOT NULL,
  previous bytea NOT NULL,
  record text NOT NULL,
  hash bytea NOT NULL
);

-- One row: the number of the next entry and the hash of the last. Its lock orders entries, and is taken only by batches
-- that have some.
CREATE TABLE host_audit_end (
  id integer PRIMARY KEY CHECK (id = 1),
  next bigint NOT NULL,
  hash bytea NOT NULL
) WITH (fillfactor = 10, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0);
INSERT INTO host_audit_end VALUES (1, 1, decode(repeat('00', 32), 'hex'));

-- `body` is the schedule as JSON, `progress` what has become of it. `fires_at` is when it fires next, and `holds` whether
-- a nominal time waits for jobs to end.
CREATE TABLE host_schedules (
  name text COLLATE "C" PRIMARY KEY,
  body text NOT NULL,
  progress text NOT NULL,
  fires_at bigint,
  holds boolean NOT NULL
) WITH (fillfactor = 70);
CREATE INDEX host_schedules_by_time ON host_schedules (fires_at) WHERE fires_at IS NOT NULL;
CREATE INDEX host_schedules_that_hold ON host_schedules (name) WHERE holds;

-- The latest firings of each schedule.
CREATE TABLE host_firings (
  schedule text COLLATE "C" NOT NULL,
  number bigint NOT NULL,
  body text NOT NULL,
  PRIMARY KEY (schedule, number)
);

-- `body` is the limit as JSON. `removed` limits stay until no job waits for them. `cursor` is the key from which on ticks
-- look for jobs that a change of the limit lets pass.
CREATE TABLE host_limits (
  number bigint PRIMARY KEY,
  body text NOT NULL,
  removed boolean NOT NULL,
  cursor text COLLATE "C"
);

-- How much of the keys of limits is used: jobs that are available, run and wait, and when the bucket is full again.
-- Keys that are the same as never used have no row. Ticks look at a key from `wake_at` on.
CREATE TABLE host_limit_keys (
  number bigint NOT NULL,
  key text COLLATE "C" NOT NULL,
  reserved bigint NOT NULL,
  running bigint NOT NULL,
  waiting bigint NOT NULL,
  refilled_at_ns bigint NOT NULL,
  reserved_units bigint NOT NULL,
  next_units bigint NOT NULL,
  cancelling bigint NOT NULL,
  to_cancel bigint NOT NULL,
  held_until bigint NOT NULL,
  wake_at bigint,
  PRIMARY KEY (number, key)
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX host_limit_keys_by_time ON host_limit_keys (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX host_limit_keys_waiting ON host_limit_keys (number, waiting) WHERE waiting > 0;

-- The jobs that run with keys whose limits cancel them for new ones, until their cancel is requested.
CREATE TABLE host_limit_running (
  number bigint NOT NULL,
  key text COLLATE "C" NOT NULL,
  since bigint NOT NULL,
  job uuid NOT NULL,
  PRIMARY KEY (number, key, since, job)
);

-- One row. A batch that touches limited jobs holds its lock.
CREATE TABLE host_limit_lock (
  id integer PRIMARY KEY CHECK (id = 1)
);
INSERT INTO host_limit_lock VALUES (1);

-- Batches of jobs. `body` is what a batch was made with as JSON, `progress` what has become of it. Ticks look at a batch from
-- `wake_at` on.
CREATE TABLE host_batches (
  id uuid PRIMARY KEY,
  body text NOT NULL,
  progress text NOT NULL,
  ended boolean NOT NULL,
  wake_at bigint
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_scale_factor = 0.02);
CREATE INDEX host_batches_by_time ON host_batches (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX host_batches_not_ended ON host_batches (id) WHERE NOT ended;

-- Files that jobs have produced.
CREATE TABLE host_artifacts (
  job uuid NOT NULL,
  name text COLLATE "C" NOT NULL,
  content_type text NOT NULL,
  bytes bigint NOT NULL,
  sha256 bytea NOT NULL,
  file uuid NOT NULL,
  PRIMARY KEY (job, name)
);

CREATE TABLE host_artifact_contents (
  job uuid NOT NULL,
  name text COLLATE "C" NOT NULL,
  content bytea NOT NULL,
  PRIMARY KEY (job, name)
);

-- Files that jobs read: uploads, whose name among the artifacts is empty, and artifacts of other jobs.
CREATE TABLE host_input_files (
  job uuid NOT NULL,
  name text COLLATE "C" NOT NULL,
  source uuid NOT NULL,
  artifact text NOT NULL,
  PRIMARY KEY (job, name)
);

CREATE TABLE host_uploads (
  id uuid NOT NULL PRIMARY KEY,
  owner text NOT NULL,
  at bigint NOT NULL,
  bytes bigint NOT NULL
);

CREATE TABLE host_upload_usage (
  owner text COLLATE "C" NOT NULL PRIMARY KEY,
  uploads bigint NOT NULL,
  bytes bigint NOT NULL
);

-- The journals of jobs: a row for each step that is done, and for one that has a checkpoint.
CREATE TABLE host_steps (
  job uuid NOT NULL,
  number bigint NOT NULL,
  name text COLLATE "C" NOT NULL,
  state text NOT NULL,
  value text NOT NULL,
  at bigint NOT NULL,
  journal_bytes bigint NOT NULL,
  PRIMARY KEY (job, number)
);
