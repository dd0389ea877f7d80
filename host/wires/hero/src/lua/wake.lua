-- KEYS: the jobs that rest, the work queue. ARGV: the time in ms, how many jobs are queued at most.
-- Queues the jobs whose rest is over as their senders did, and returns how many still rest.
local due = redis.call('ZRANGEBYSCORE', KEYS[1], '-inf', ARGV[1], 'LIMIT', '0', ARGV[2])
for _, id in ipairs(due) do
  redis.call('LPUSH', KEYS[2], id)
  redis.call('ZREM', KEYS[1], id)
end
return redis.call('ZCARD', KEYS[1])
