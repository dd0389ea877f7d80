-- KEYS: the job, its claim, the processing list, the work queue, its context if only one of its jobs
-- runs at once.
-- ARGV: id, host, the side of the queue it goes to, the time. The entry in the processing list goes
-- last: it stays if the queue takes nothing.
local holder = redis.pcall('GET', KEYS[2])
if holder and holder ~= ARGV[2] then return 'held' end
local taken = redis.call('LPOS', KEYS[3], ARGV[1])
if taken then
  redis.call(ARGV[3] == 'LEFT' and 'LPUSH' or 'RPUSH', KEYS[4], ARGV[1])
  if redis.pcall('HGET', KEYS[1], 'status') == 'started' then
    redis.call('HSET', KEYS[1], 'status', 'dispatched', 'updated_at', ARGV[4])
  end
  redis.call('LREM', KEYS[3], 0, ARGV[1])
end
redis.call('DEL', KEYS[2])
if KEYS[5] and redis.pcall('GET', KEYS[5]) == ARGV[1] then redis.call('DEL', KEYS[5]) end
return taken and 'released' or 'gone'
