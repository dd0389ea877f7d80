-- KEYS: the job, its work queue, its stop queue. ARGV: id, the time.
-- Queues a job again whose worker is silent, unless it is gone or has ended since it was looked at.
local status = redis.call('HGET', KEYS[1], 'status')
if not status or status == 'finished' or status == 'error' then return 'ended' end
-- A queue that takes nothing ends this before anything is changed.
if not redis.call('LPOS', KEYS[2], ARGV[1]) then redis.call('LPUSH', KEYS[2], ARGV[1]) end
redis.call('LREM', KEYS[3], 0, ARGV[1])
redis.call('HSET', KEYS[1], 'status', 'dispatched', 'updated_at', ARGV[2])
return 'queued'
