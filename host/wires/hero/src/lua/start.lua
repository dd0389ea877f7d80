-- KEYS: the job, its claim, its context if it needs the turn there. ARGV: host, the time, the id.
-- Writes that an attempt runs, unless another host has the job, another job has its turn, or it has
-- ended. A hash that is gone is not made anew: it would be no job.
local holder = redis.pcall('GET', KEYS[2])
if holder and holder ~= ARGV[1] then return 'held' end
if KEYS[3] and redis.pcall('GET', KEYS[3]) ~= ARGV[3] then return 'held' end
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 'gone' end
local status = redis.call('HGET', KEYS[1], 'status')
if status == 'finished' or status == 'error' then
  redis.call('DEL', KEYS[2])
  return 'ended'
end
redis.call('HSET', KEYS[1], 'status', 'started', 'updated_at', ARGV[2])
return 'started'
