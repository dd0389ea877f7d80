-- KEYS: the job, its claim, the processing list, the work queue.
-- ARGV: id, host, the side that jobs are taken from, the time.
local holder = redis.call('GET', KEYS[2])
if holder and holder ~= ARGV[2] then return 'held' end
redis.call('DEL', KEYS[2])
if redis.call('LREM', KEYS[3], 0, ARGV[1]) == 0 then return 'gone' end
if redis.call('HGET', KEYS[1], 'status') == 'started' then
  redis.call('HSET', KEYS[1], 'status', 'dispatched', 'updated_at', ARGV[4])
end
if ARGV[3] == 'LEFT' then
  redis.call('LPUSH', KEYS[4], ARGV[1])
else
  redis.call('RPUSH', KEYS[4], ARGV[1])
end
return 'released'
