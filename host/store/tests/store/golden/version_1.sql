CREATE TABLE queues (
  id INTEGER PRIMARY KEY,
  name TEXT NOT NULL UNIQUE,
  paused INTEGER NOT NULL DEFAULT 0
) STRICT;
INSERT INTO queues VALUES(1,'default',0);
INSERT INTO queues VALUES(2,'other',0);
INSERT INTO queues VALUES(3,'limited',0);
CREATE TABLE counters (
  queue INTEGER NOT NULL,
  state INTEGER NOT NULL,
  jobs INTEGER NOT NULL,
  PRIMARY KEY (queue, state)
) STRICT, WITHOUT ROWID;
INSERT INTO counters VALUES(1,0,1);
INSERT INTO counters VALUES(1,1,1);
INSERT INTO counters VALUES(1,2,2);
INSERT INTO counters VALUES(1,3,1);
INSERT INTO counters VALUES(1,4,1);
INSERT INTO counters VALUES(1,5,1);
INSERT INTO counters VALUES(1,7,1);
INSERT INTO counters VALUES(2,2,0);
INSERT INTO counters VALUES(2,6,1);
INSERT INTO counters VALUES(3,0,1);
INSERT INTO counters VALUES(3,2,1);
CREATE TABLE live_jobs (
  handler TEXT PRIMARY KEY,
  jobs INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO live_jobs VALUES('noop',6);
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
INSERT INTO jobs VALUES(1,X'01990000000070008000000000000001',5,1,5,0,'noop',NULL,605800000,X'011001990000000070008000000000000001050764656661756c74046e6f6f700005050000e80780dddb018088b2a0028088b2a0020000000080897a00000001000000010000000180897a0000000000000000',1,NULL,NULL);
INSERT INTO jobs VALUES(2,X'01990000000070008000000000000002',4,1,5,0,'noop',NULL,1001049,X'011001990000000070008000000000000002040764656661756c74046e6f6f700005050000e80780dddb018088b2a0028088b2a0020000000080897a01b2997a0000010000000100000000010000000000000000',2,NULL,NULL);
INSERT INTO jobs VALUES(3,X'01990000000070008000000000000003',3,1,5,0,'noop',NULL,NULL,X'011001990000000070008000000000000003030764656661756c74046e6f6f700005050000e80780dddb018088b2a0028088b2a0020000000080897a000000010000000101100000000000000000000000000000000310000000000000000000000000000000010663656c6c2d310080897a000000000000000000000000000000',3,NULL,NULL);
INSERT INTO jobs VALUES(4,X'01990000000070008000000000000008',7,1,5,0,'noop',NULL,605800000,X'011001990000000070008000000000000008070764656661756c74046e6f6f700005050000e80780dddb018088b2a0028088b2a0020000000080897a00000001000000010000000180897a010000000000000000',4,NULL,NULL);
INSERT INTO jobs VALUES(5,X'01990000000070008000000000000004',2,1,5,0,'noop',NULL,NULL,X'011001990000000070008000000000000004020764656661756c74046e6f6f700005050000e80780dddb018088b2a0028088b2a0020000000080897a0000000000000000000000000000000000000000',5,NULL,NULL);
INSERT INTO jobs VALUES(6,X'01990000000070008000000000000005',0,1,5,0,'noop',NULL,NULL,X'011001990000000070008000000000000005000764656661756c74046e6f6f700005050000e80780dddb018088b2a0028088b2a0020000000080897a0000010000000000000000000000000000000000',6,NULL,NULL);
INSERT INTO jobs VALUES(7,X'01990000000070008000000000000006',1,1,5,0,'noop',NULL,1060000,X'011001990000000070008000000000000006010764656661756c74046e6f6f700005050000e80780dddb018088b2a0028088b2a0020000000080897a01c0b2810100000000000000000000000000000000000000',7,NULL,NULL);
INSERT INTO jobs VALUES(8,X'01990000000070008000000000000007',6,2,5,0,'noop',NULL,605800000,X'01100199000000007000800000000000000706056f74686572046e6f6f700005050000e80780dddb018088b2a0028088b2a0020000000080897a0000000000000000000180897a0106656e6f75676800000180897a010900000000000000',8,NULL,NULL);
INSERT INTO jobs VALUES(9,X'0199000000007000800000000000000a',2,3,5,0,'noop','limited',NULL,X'01100199000000007000800000000000000a02076c696d69746564046e6f6f7001076c696d6974656405050000e80780dddb018088b2a0028088b2a0020000000080897a000000000000000000000000000001c0843d0001000000000000',9,NULL,NULL);
INSERT INTO jobs VALUES(10,X'0199000000007000800000000000000b',0,3,5,0,'noop','limited',NULL,X'01100199000000007000800000000000000b00076c696d69746564046e6f6f7001076c696d6974656405050000e80780dddb018088b2a0028088b2a0020000000080897a000000000000000000000000000001c0843d000100010000000000',10,'1000000/',NULL);
INSERT INTO jobs VALUES(11,X'0199000000007000800000000000001e',2,1,5,0,'noop',NULL,NULL,X'01100199000000007000800000000000001e020764656661756c74046e6f6f700005050000e80780dddb018088b2a0028088b2a0020000000080897a00000000000000000000000000000000000001100199000000007000900000000000000100',11,NULL,X'01990000000070009000000000000001');
CREATE TABLE payloads (
  seq INTEGER PRIMARY KEY,
  params TEXT NOT NULL,
  wire TEXT NOT NULL,
  unique_key TEXT,
  extra BLOB
) STRICT;
INSERT INTO payloads VALUES(1,'{"n":1}','http',NULL,NULL);
INSERT INTO payloads VALUES(2,'{"n":2}','http',NULL,NULL);
INSERT INTO payloads VALUES(3,'{"n":3}','http',NULL,NULL);
INSERT INTO payloads VALUES(4,'{"n":8}','http',NULL,NULL);
INSERT INTO payloads VALUES(5,'{"n":4}','http',NULL,NULL);
INSERT INTO payloads VALUES(6,'{"n":5}','http',NULL,X'010000000110019900000000700080000000000000040000');
INSERT INTO payloads VALUES(7,'{"n":6}','http',NULL,NULL);
INSERT INTO payloads VALUES(8,'{"n":7}','http','key',X'01000001047465616d0161000000');
INSERT INTO payloads VALUES(9,'{"n":10}','http',NULL,NULL);
INSERT INTO payloads VALUES(10,'{"n":11}','http',NULL,NULL);
INSERT INTO payloads VALUES(11,'{"n":30}','http',NULL,X'010000010862617463682e69642430313939303030302d303030302d373030302d393030302d303030303030303030303031000000');
CREATE TABLE attempts (
  seq INTEGER NOT NULL,
  number INTEGER NOT NULL,
  body BLOB NOT NULL,
  progress BLOB,
  result TEXT,
  PRIMARY KEY (seq, number)
) STRICT, WITHOUT ROWID;
INSERT INTO attempts VALUES(1,1,X'01010663656c6c2d3101066261736963730180897a80897a09636f6d706c65746564000708090000',NULL,'[1,2]');
INSERT INTO attempts VALUES(2,1,X'01010663656c6c2d3101066261736963730180897a80897a066661696c65640100076e6f206c75636b000000000001010708090000',NULL,NULL);
INSERT INTO attempts VALUES(4,1,X'01010663656c6c2d3101066261736963730180897a80897a066661696c65640100076e6f206c75636b000000000001000708090000',NULL,NULL);
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
INSERT INTO unique_keys VALUES(2,'key',X'01990000000070008000000000000007');
CREATE TABLE dependencies (
  prerequisite BLOB NOT NULL,
  dependent INTEGER NOT NULL,
  job BLOB NOT NULL,
  PRIMARY KEY (prerequisite, dependent)
) STRICT, WITHOUT ROWID;
INSERT INTO dependencies VALUES(X'01990000000070008000000000000004',6,X'01990000000070008000000000000005');
CREATE TABLE cascades (
  n INTEGER PRIMARY KEY,
  prerequisite BLOB NOT NULL UNIQUE,
  state INTEGER NOT NULL
) STRICT;
CREATE TABLE state (
  space TEXT NOT NULL,
  key TEXT NOT NULL,
  at INTEGER NOT NULL,
  value BLOB NOT NULL,
  PRIMARY KEY (space, key)
) STRICT;
INSERT INTO state VALUES('handler:noop','cursor',1000000,X'3137');
CREATE TABLE state_spaces (
  space TEXT PRIMARY KEY,
  keys INTEGER NOT NULL,
  bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO state_spaces VALUES('handler:noop',1,72);
CREATE TABLE components (
  name TEXT PRIMARY KEY,
  current INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO components VALUES('basics',2);
CREATE TABLE revisions (
  component TEXT NOT NULL,
  revision INTEGER NOT NULL,
  digest BLOB NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (component, revision)
) STRICT, WITHOUT ROWID;
INSERT INTO revisions VALUES('basics',1,X'0101010101010101010101010101010101010101010101010101010101010101','{"component":"basics","revision":1,"digest":[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1],"manifest":{"name":null,"defaults":{"memory_mib":null,"fuel":null,"timeout_seconds":null,"grace_seconds":null,"result_kib":null,"log_kib":null,"max_attempts":null,"backoff":null,"retention_seconds":null,"retention_discarded_seconds":null,"env":null,"read_dirs":null,"http":null,"jobs":null,"state":null,"secrets":null,"hold":null,"notify":null},"handlers":{}},"handlers":[{"name":"noop","description":null,"params_schema":null,"result_schema":null}],"deployed_at":1000000,"signature":null,"schedules":[],"release":{"by":"","label":null,"note":null}}');
INSERT INTO revisions VALUES('basics',2,X'0202020202020202020202020202020202020202020202020202020202020202','{"component":"basics","revision":2,"digest":[2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2,2],"manifest":{"name":null,"defaults":{"memory_mib":null,"fuel":null,"timeout_seconds":null,"grace_seconds":null,"result_kib":null,"log_kib":null,"max_attempts":null,"backoff":null,"retention_seconds":null,"retention_discarded_seconds":null,"env":null,"read_dirs":null,"http":null,"jobs":null,"state":null,"secrets":null,"hold":null,"notify":null},"handlers":{}},"handlers":[{"name":"noop","description":null,"params_schema":null,"result_schema":null},{"name":"echo","description":null,"params_schema":null,"result_schema":null}],"deployed_at":1000000,"signature":null,"schedules":[],"release":{"by":"","label":null,"note":null}}');
CREATE TABLE blobs (
  digest BLOB PRIMARY KEY,
  bytes BLOB NOT NULL
) STRICT;
INSERT INTO blobs VALUES(X'0101010101010101010101010101010101010101010101010101010101010101',X'01010101010101010101');
INSERT INTO blobs VALUES(X'0202020202020202020202020202020202020202020202020202020202020202',X'02020202020202020202');
CREATE TABLE node (
  row INTEGER PRIMARY KEY CHECK (row = 1),
  id BLOB NOT NULL
) STRICT;
INSERT INTO node VALUES(1,X'00000000000000000000000000000001');
CREATE TABLE changes (
  first INTEGER PRIMARY KEY,
  count INTEGER NOT NULL,
  at INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;
INSERT INTO changes VALUES(1,4,1000000,X'01041001990000000070008000000000000001046e6f6f70000764656661756c74000102001001990000000070008000000000000002046e6f6f70000764656661756c74000102001001990000000070008000000000000003046e6f6f70000764656661756c74000102001001990000000070008000000000000008046e6f6f70000764656661756c7400010200');
INSERT INTO changes VALUES(5,4,1000000,X'01041001990000000070008000000000000001046e6f6f70000764656661756c7401020103011001990000000070008000000000000002046e6f6f70000764656661756c7401020103011001990000000070008000000000000003046e6f6f70000764656661756c7401020103011001990000000070008000000000000008046e6f6f70000764656661756c740102010301');
INSERT INTO changes VALUES(9,4,1000000,X'01041001990000000070008000000000000004046e6f6f70000764656661756c74000102001001990000000070008000000000000005046e6f6f70000764656661756c74000100001001990000000070008000000000000006046e6f6f70000764656661756c74000101001001990000000070008000000000000007046e6f6f7000056f7468657200010200');
INSERT INTO changes VALUES(13,4,1000000,X'01041001990000000070008000000000000001046e6f6f70000764656661756c7401030105011001990000000070008000000000000002046e6f6f70000764656661756c7401030104011001990000000070008000000000000008046e6f6f70000764656661756c7401030107011001990000000070008000000000000007046e6f6f7000056f746865720102010600');
INSERT INTO changes VALUES(17,2,1000000,X'0102100199000000007000800000000000000a046e6f6f7001076c696d69746564076c696d6974656400010200100199000000007000800000000000000b046e6f6f7001076c696d69746564076c696d6974656400010000');
INSERT INTO changes VALUES(19,1,1000000,X'0101100199000000007000800000000000001e046e6f6f70000764656661756c7400010200');
CREATE TABLE tokens (
  id TEXT PRIMARY KEY,
  body TEXT NOT NULL,
  used_at INTEGER
) STRICT, WITHOUT ROWID;
INSERT INTO tokens VALUES('000000000001','{"id":"000000000001","hash":"cbbde3763241f557cc74e085f0296fc097ff90e053c47f421b4045de0fe5da34","name":"ci","created_by":"uid:0","created_at":1000000,"rights":{"verbs":["enqueue","read","read_own","cancel"],"scope":{"queues":["mail-*"],"handlers":[]},"from":["10.0.0.0/8"],"rate":9,"max_waiting":7,"expires_at":1000001},"previous":null,"sessions":[]}',NULL);
CREATE TABLE owned (
  principal TEXT PRIMARY KEY,
  jobs INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE audit (
  number INTEGER PRIMARY KEY,
  at INTEGER NOT NULL,
  previous BLOB NOT NULL,
  record TEXT NOT NULL,
  hash BLOB NOT NULL
) STRICT;
INSERT INTO audit VALUES(1,1000000,X'0000000000000000000000000000000000000000000000000000000000000000','{"at":"1970-01-01T00:16:40.000Z","principal":"","address":null,"verb":"tokens","object":"token 000000000001","outcome":"done","request":null,"detail":null,"times":1}',X'c2a07304ace794343d507e13bd50e16e91028ea69d60d622616b04d8c6ba0907');
CREATE TABLE schedules (
  name TEXT PRIMARY KEY,
  body TEXT NOT NULL,
  progress TEXT NOT NULL,
  fires_at INTEGER,
  holds INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
INSERT INTO schedules VALUES('nightly','{"name":"nightly","when":{"every":{"ms":60000,"phase_ms":0}},"time_zone":"UTC","job":"{\"handler\":\"noop\"}","overlap":"queue_one","catch_up":"all","window_ms":3600000,"spread_ms":0,"from":null,"until":null,"is_paused":false,"note":null,"source":"api","origin":null}','{"next":1080000,"held":[],"previous":null,"open":[],"counts":{"fired":0,"late":0,"skipped":0,"missed":0,"failed":1},"recorded":1,"version":2}',1080000,0);
CREATE TABLE firings (
  schedule TEXT NOT NULL,
  number INTEGER NOT NULL,
  body TEXT NOT NULL,
  PRIMARY KEY (schedule, number)
) STRICT, WITHOUT ROWID;
INSERT INTO firings VALUES('nightly',1,'{"nominal":1020000,"at":1090000,"fate":{"failed":"no handler is named noop"}}');
CREATE TABLE limits (
  number INTEGER PRIMARY KEY,
  body TEXT NOT NULL,
  removed INTEGER NOT NULL,
  cursor TEXT
) STRICT;
INSERT INTO limits VALUES(1000000,'{"name":"all","matches":{"queues":["limited"],"handlers":[]},"key":[],"concurrency":1,"rate":null,"when_full":"wait","source":"api"}',0,NULL);
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
INSERT INTO limit_keys VALUES(1000000,'',1,0,1,0,1,1,0,0,0,NULL);
CREATE TABLE limit_running (
  number INTEGER NOT NULL,
  key TEXT NOT NULL,
  since INTEGER NOT NULL,
  job BLOB NOT NULL,
  PRIMARY KEY (number, key, since, job)
) STRICT, WITHOUT ROWID;
CREATE TABLE batches (
  id BLOB PRIMARY KEY,
  body TEXT NOT NULL,
  progress TEXT NOT NULL,
  ended INTEGER NOT NULL,
  wake_at INTEGER
) STRICT;
INSERT INTO batches VALUES(X'01990000000070009000000000000001','{"name":null,"callbacks":[["first_failure",{"id":"01990000-0000-7000-8000-010000000004","handler":"noop","runner":null,"component":null,"queue":"callbacks","priority":5,"run_at":null,"deadline":null,"policy":{"max_attempts":5,"timeout_ms":null,"cancel_grace_ms":null,"backoff":{"base_ms":1000,"max_ms":3600000},"retention":{"ms":604800000,"discarded_ms":604800000},"on_grace_expired":"Cancelled","lost_lease_costs_attempt":false,"ack_window_ms":null,"report_ms":null},"unique_key":null,"depends_on":[],"conditions":null,"batch":null,"notify":[],"files":[],"payload":{"params":"{\"n\":1099511627780}","wire":"http","external_id":null,"trace_context":[],"attributes":[],"origin":null,"latest_start":null}}],["success",{"id":"01990000-0000-7000-8000-010000000005","handler":"noop","runner":null,"component":null,"queue":"callbacks","priority":5,"run_at":null,"deadline":null,"policy":{"max_attempts":5,"timeout_ms":null,"cancel_grace_ms":null,"backoff":{"base_ms":1000,"max_ms":3600000},"retention":{"ms":604800000,"discarded_ms":604800000},"on_grace_expired":"Cancelled","lost_lease_costs_attempt":false,"ack_window_ms":null,"report_ms":null},"unique_key":null,"depends_on":[],"conditions":null,"batch":null,"notify":[],"files":[],"payload":{"params":"{\"n\":1099511627781}","wire":"http","external_id":null,"trace_context":[],"attributes":[],"origin":null,"latest_start":null}}],["end",{"id":"01990000-0000-7000-8000-010000000006","handler":"noop","runner":null,"component":null,"queue":"callbacks","priority":5,"run_at":null,"deadline":null,"policy":{"max_attempts":5,"timeout_ms":null,"cancel_grace_ms":null,"backoff":{"base_ms":1000,"max_ms":3600000},"retention":{"ms":604800000,"discarded_ms":604800000},"on_grace_expired":"Cancelled","lost_lease_costs_attempt":false,"ack_window_ms":null,"report_ms":null},"unique_key":null,"depends_on":[],"conditions":null,"batch":null,"notify":[],"files":[],"payload":{"params":"{\"n\":1099511627782}","wire":"http","external_id":null,"trace_context":[],"attributes":[],"origin":null,"latest_start":null}}]],"notify":null,"origin":null,"created_at":1000000,"kept_ms":5000}','{"is_open":true,"counts":{"jobs":1,"completed":0,"discarded":0,"cancelled":0},"ended_at":null,"cancel":null,"fired":[],"due":[],"refused":null,"again_at":null,"notified":[],"sent":{"deliveries":0,"latest":null}}',0,605800000);
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
CREATE INDEX dependencies_dependent ON dependencies (dependent);
CREATE INDEX schedules_by_time ON schedules (fires_at) WHERE fires_at IS NOT NULL;
CREATE INDEX schedules_that_hold ON schedules (name) WHERE holds = 1;
CREATE INDEX limit_keys_by_time ON limit_keys (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX limit_keys_waiting ON limit_keys (number, waiting) WHERE waiting > 0;
CREATE INDEX batches_by_time ON batches (wake_at) WHERE wake_at IS NOT NULL;
CREATE INDEX batches_not_ended ON batches (id) WHERE ended = 0;
PRAGMA user_version = 1;
