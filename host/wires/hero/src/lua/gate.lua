-- KEYS: the jobs that wait, the job, its work queue, its reply list.
-- ARGV: id, 'queue', 'end' or 'wait', what it waited for when it was looked at, what it waits for
-- now, the time, the error, the reply, how long the reply is kept in s.
-- Only one host finds the job among those that wait, as it was looked at.
if not redis.call('ZSCORE', KEYS[1], ARGV[1]) then return 'gone' end
if redis.call('TYPE', KEYS[2]).ok ~= 'hash'
  or redis.call('HGET', KEYS[2], 'status') ~= 'dispatched' then
  redis.call('ZREM', KEYS[1], ARGV[1])
  return 'over'
end
if (redis.call('HGET', KEYS[2], 'waits_for') or '') ~= ARGV[3] then return 'changed' end
if ARGV[2] == 'wait' then
  redis.call('HSET', KEYS[2], 'waits_for', ARGV[4])
  return 'waits'
end
if ARGV[2] == 'queue' then
  -- A queue that takes nothing ends this, and the job continues waiting.
  redis.call('LPUSH', KEYS[3], ARGV[1])
  redis.call('HSET', KEYS[2], 'waits_for', ARGV[4], 'updated_at', ARGV[5])
  redis.call('ZREM', KEYS[1], ARGV[1])
  return 'queued'
end
redis.call('HSET', KEYS[2], 'status', 'error', 'error', ARGV[6], 'updated_at', ARGV[5])
redis.call('ZREM', KEYS[1], ARGV[1])
local replies = redis.pcall('LPUSH', KEYS[4], ARGV[7])
if type(replies) == 'number' then redis.call('EXPIRE', KEYS[4], ARGV[8]) end
return 'ended'
