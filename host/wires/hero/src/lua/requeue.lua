-- KEYS: the job, its claim, the work queue, the processing list, the stop queue, the reply list, the
-- jobs that wait, the jobs that rest.
-- ARGV: id, the time, the time in ms, what it waits for, its status and the time of its last change
-- when it was looked at, and how many times a host does this by itself ('': somebody asked for it).
-- Queues the job again without what it left behind.
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 'missing' end
if redis.call('ZSCORE', KEYS[7], ARGV[1]) then return 'waits' end
if redis.call('EXISTS', KEYS[2]) == 1 then return 'held' end
if redis.call('LPOS', KEYS[3], ARGV[1]) then return 'queued' end
if (redis.call('HGET', KEYS[1], 'status') or '') ~= ARGV[5]
  or (redis.call('HGET', KEYS[1], 'updated_at') or '') ~= ARGV[6] then
  return 'changed'
end
local times = tonumber(redis.call('HGET', KEYS[1], 'requeued') or 0) or 0
if ARGV[7] ~= '' and times >= tonumber(ARGV[7]) then return 'often' end
-- A queue that takes nothing ends this before anything is changed.
local waits = ARGV[4] ~= '[]'
if waits then
  redis.call('ZADD', KEYS[7], ARGV[3], ARGV[1])
  redis.call('HSET', KEYS[1], 'waits_for', ARGV[4])
else
  redis.call('LPUSH', KEYS[3], ARGV[1])
end
redis.call('HSET', KEYS[1], 'status', 'dispatched', 'updated_at', ARGV[2])
redis.call('HDEL', KEYS[1], 'output', 'error', 'attempt')
redis.pcall('ZREM', KEYS[8], ARGV[1])
if ARGV[7] ~= '' then redis.call('HSET', KEYS[1], 'requeued', times + 1) end
redis.call('PERSIST', KEYS[1])
redis.call('DEL', KEYS[6])
redis.pcall('LREM', KEYS[4], 0, ARGV[1])
redis.pcall('LREM', KEYS[5], 0, ARGV[1])
return waits and 'waits' or 'queued'
