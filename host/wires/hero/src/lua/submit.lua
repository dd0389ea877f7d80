-- KEYS: the job, the work queue. ARGV: id, then pairs of a field and its value.
-- A job that is there already is left as it is: the command was sent again. A queue that takes
-- nothing ends this before anything is stored.
if redis.call('EXISTS', KEYS[1]) == 1 then return 'known' end
redis.call('LPUSH', KEYS[2], ARGV[1])
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return 'queued'
