-- KEYS: the job, its claim. ARGV: host, the time. Writes that an attempt runs, unless another host
-- has the job or it has ended.
local holder = redis.pcall('GET', KEYS[2])
if holder and holder ~= ARGV[1] then return 'held' end
local status = redis.call('HGET', KEYS[1], 'status')
if status == 'finished' or status == 'error' then
  redis.call('DEL', KEYS[2])
  return 'ended'
end
redis.call('HSET', KEYS[1], 'status', 'started', 'updated_at', ARGV[2])
return 'started'
