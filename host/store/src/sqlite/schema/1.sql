-- A state is its index in `host_core::job::STATES`: 2 is available, 5 completed.

CREATE TABLE queues (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  paused INTEGER NOT NULL DEFAULT 0
) STRICT;

-- The number of jobs by queue and state. Queue 0 holds the `seq` after the newest purged job.
CREATE TABLE counters (
  queue INTEGER NOT NULL,
  state INTEGER NOT NULL,
  jobs INTEGER NOT NULL,
  PRIMARY KEY (queue, state)
) STRICT, WITHOUT ROWID;

-- How many jobs for each handler of our cells have not ended, if there are any.
CREATE TABLE live_jobs (
  handler TEXT PRIMARY KEY,
  jobs INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The mutable part of a job: columns to search by, and the whole lifecycle as a record in `body`. `seq` is the
-- order of acceptance and is never reused. `rank` is the order of claims: `seq`, or a later number if the job has waited for
-- a limit. `waits_for` is the key of a limit that it waits for, behind the limit's number.
CREATE TABLE jobs (
  seq INTEGER PRIMARY KEY,
  id BLOB NOT NULL UNIQUE,
  state INTEGER NOT NULL,
  queue INTEGER NOT NULL,
  priority INTEGER NOT NULL,
  suspect INTEGER NOT NULL,
  handler TEXT NOT NULL,
  runner TEXT,
  wakeup_at INTEGER,
  body BLOB NOT NULL,
  rank INTEGER NOT NULL,
  waits_for TEXT,
  batch BLOB
) STRICT;
CREATE INDEX jobs_claim ON jobs (queue, priority, rank)
  WHERE state = 2 AND suspect = 0 AND runner IS NULL;
CREATE INDEX jobs_suspect ON jobs (priority, rank)
  WHERE state = 2 AND suspect = 1 AND runner IS NULL;
CREATE INDEX jobs_runner ON jobs (runner, queue, priority, rank)
  WHERE state = 2 AND runner IS NOT NULL;
CREATE INDEX jobs_wakeup ON jobs (wakeup_at, seq) WHERE wakeup_at IS NOT NULL;
CREATE INDEX jobs_waiting ON jobs (waits_for, priority, seq) WHERE waits_for IS NOT NULL;
CREATE INDEX jobs_batch ON jobs (batch, seq) WHERE batch IS NOT NULL;
CREATE INDEX jobs_batch_live ON jobs (batch, seq) WHERE batch IS NOT NULL AND state < 5;
CREATE INDEX jobs_batch_discarded ON jobs (batch, seq) WHERE batch IS NOT NULL AND state = 7;
CREATE INDEX jobs_queue ON jobs (queue, seq);
CREATE INDEX jobs_handler ON jobs (handler, seq);
CREATE INDEX jobs_state ON jobs (state, seq);

-- The immutable part of a job.
CREATE TABLE payloads (
  seq INTEGER PRIMARY KEY,
  params TEXT NOT NULL,
  wire TEXT NOT NULL,
  unique_key TEXT,
  extra BLOB
) STRICT;

-- Ended attempts, and the progress of running ones.
CREATE TABLE attempts (
  seq INTEGER NOT NULL,
  number INTEGER NOT NULL,
  body BLOB NOT NULL,
  progress BLOB,
  result TEXT,
  PRIMARY KEY (seq, number)
) STRICT, WITHOUT ROWID;

-- Why a job failed after the attempt of that number; 0 is before the first.
CREATE TABLE failures (
  seq INTEGER PRIMARY KEY,
  attempt INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;

CREATE TABLE unique_keys (
  queue INTEGER NOT NULL,
  key TEXT NOT NULL,
  job BLOB NOT NULL,
  PRIMARY KEY (queue, key)
) STRICT, WITHOUT ROWID;

-- The dependencies that are not settled: `job`, at the place `dependent`, still waits for `prerequisite`.
CREATE TABLE dependencies (
  prerequisite BLOB NOT NULL,
  dependent INTEGER NOT NULL,
  job BLOB NOT NULL,
  PRIMARY KEY (prerequisite, dependent)
) STRICT, WITHOUT ROWID;
CREATE INDEX dependencies_dependent ON dependencies (dependent);

-- Ended jobs whose dependents ticks go on to settle, in the order of `n`.
CREATE TABLE cascades (
  n INTEGER PRIMARY KEY,
  prerequisite BLOB NOT NULL UNIQUE,
  state INTEGER NOT NULL
) STRICT;

-- The state that handlers keep. A space is `handler:NAME` or `shared:NAME`.
CREATE TABLE state (
  space TEXT NOT NULL,
  key TEXT NOT NULL,
  at INTEGER NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (space, key)
) STRICT;

-- How much each space has: `bytes` are those of keys and values, and 64 for each key.
CREATE TABLE state_spaces (
  space TEXT PRIMARY KEY,
  keys INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- `current` of a removed component is its last revision as a negative number.
CREATE TABLE components (
  name TEXT PRIMARY KEY,
  current INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE revisions (
  component TEXT NOT NULL,
  revision INTEGER NOT NULL,
  digest BLOB NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (component, revision)
) STRICT, WITHOUT ROWID;

CREATE TABLE blobs (
  digest BLOB PRIMARY KEY,
  bytes BLOB NOT NULL
) STRICT;

-- One row: the id of the host that owns this file.
CREATE TABLE node (
  row INTEGER PRIMARY KEY CHECK (row = 1),
  id BLOB NOT NULL
) STRICT;

-- The changes of each batch, at most 1,000 in a row. `first` is the number of the first of them.
CREATE TABLE changes (
  first INTEGER PRIMARY KEY,
  count INTEGER NOT NULL,
  at INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;

-- `body` is the token as JSON, with the SHA-256 of its text.
CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  body TEXT NOT NULL,
  used_at INTEGER
) STRICT, WITHOUT ROWID;

-- How many jobs of principals with a limit have not ended.
CREATE TABLE owned (
  principal TEXT PRIMARY KEY,
  jobs INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- Each entry has the hash of the one before it.
CREATE TABLE audit (
  number INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  previous BLOB NOT NULL,
  record TEXT NOT NULL,
  hash BLOB NOT NULL
) STRICT;

-- `body` is the schedule as JSON, `progress` what has become of it. `fires_at` is when it fires next, and `holds` whether
-- a nominal time waits for jobs to end.
CREATE TABLE schedules (
  name TEXT PRIMARY KEY,
  body TEXT NOT NULL,
  progress TEXT NOT NULL,
  fires_at INTEGER,
  holds INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX schedules_by_time ON schedules (fires_at) WHERE fires_at IS NOT NULL;
CREATE INDEX schedules_that_hold ON schedules (name) WHERE holds = 1;

-- The latest firings of each schedule.
CREATE TABLE firings (
  schedule TEXT NOT NULL,
  number INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (schedule, number)
) STRICT, WITHOUT ROWID;

-- `body` is the limit as JSON. `removed` limits stay until no job waits for them. `cursor` is the key from which on ticks
-- look for jobs that a change of the limit lets pass.
CREATE TABLE limits (
  number INTEGER PRIMARY KEY,
  body TEXT NOT NULL,
  removed INTEGER NOT NULL,
  cursor TEXT
) STRICT;

-- How much of the keys of limits is used: jobs that are available, run and wait, and when the bucket is full again.
-- Keys that are the same as never used have no row. Ticks look at a key from `wake_at` on.
CREATE TABLE limit_keys (
  number INTEGER NOT NULL,
  key TEXT NOT NULL,
  reserved INTEGER NOT NULL,
  running INTEGER NOT NULL,
  waiting INTEGER NOT NULL,
  refilled_at_ns INTEGER NOT NULL,
  reserved_units INTEGER NOT NULL,
  next_units INTEGER NOT NULL,
  cancelling INTEGER NOT NULL,
  to_cancel INTEGER NOT NULL,
  held_until INTEGER NOT NULL,
  wake_at INTEGER,
  PRIMARY KEY (number, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX limit_keys_by_time ON limit_keys (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX limit_keys_waiting ON limit_keys (number, waiting) WHERE waiting > 0;

-- The jobs that run with keys whose limits cancel them for new ones, until their cancel is requested.
CREATE TABLE limit_running (
  number INTEGER NOT NULL,
  key TEXT NOT NULL,
  since INTEGER NOT NULL,
  job BLOB NOT NULL,
  PRIMARY KEY (number, key, since, job)
) STRICT, WITHOUT ROWID;

-- Batches of jobs. `body` is what a batch was made with as JSON, `progress` what has become of it. Ticks look at a batch from
-- `wake_at` on.
CREATE TABLE batches (
  id BLOB PRIMARY KEY,
  body TEXT NOT NULL,
  progress TEXT NOT NULL,
  ended INTEGER NOT NULL,
  wake_at INTEGER
) STRICT;
CREATE INDEX batches_by_time ON batches (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX batches_not_ended ON batches (id) WHERE ended = 0;

-- Files that jobs have produced. `file` names the file in `artifacts/` that has the content, unless
-- `artifact_contents` does, after a copy from a database.
CREATE TABLE artifacts (
  job BLOB NOT NULL,
  name TEXT NOT NULL,
  content_type TEXT NOT NULL,
  bytes INTEGER NOT NULL,
  sha256 BLOB NOT NULL,
  file BLOB NOT NULL,
  PRIMARY KEY (job, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE artifact_contents (
  job BLOB NOT NULL,
  name TEXT NOT NULL,
  content BLOB NOT NULL,
  PRIMARY KEY (job, name)
) STRICT, WITHOUT ROWID;

-- Files that jobs read: uploads, whose name among the artifacts is empty, and artifacts of other jobs.
CREATE TABLE input_files (
  job BLOB NOT NULL,
  name TEXT NOT NULL,
  source BLOB NOT NULL,
  artifact TEXT NOT NULL,
  PRIMARY KEY (job, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE uploads (
  id BLOB NOT NULL PRIMARY KEY,
  owner TEXT NOT NULL,
  at INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE upload_usage (
  owner TEXT NOT NULL PRIMARY KEY,
  uploads INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

-- The journals of jobs: a row for each step that is done, and for one that has a checkpoint.
CREATE TABLE steps (
  job BLOB NOT NULL,
  number INTEGER NOT NULL,
  name TEXT NOT NULL,
  state TEXT NOT NULL,
  value TEXT NOT NULL,
  at INTEGER NOT NULL,
  journal_bytes INTEGER NOT NULL,
  PRIMARY KEY (job, number)
) STRICT, WITHOUT ROWID;
