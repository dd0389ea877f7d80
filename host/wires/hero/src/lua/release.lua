-- KEYS: the job, its claim, the processing list, the work queue, the jobs that rest, its context if only
-- one of its jobs runs at once.
-- ARGV: id, host, the side of the queue it goes to or 'REST', the time, when it may run again in ms and
-- the number of the attempt then. The entry in the processing list goes last: it stays if the queue
-- takes nothing.
local holder = redis.pcall('GET', KEYS[2])
if holder and holder ~= ARGV[2] then return 'held' end
local taken = redis.call('LPOS', KEYS[3], ARGV[1])
if taken then
  local is_job = redis.call('TYPE', KEYS[1]).ok == 'hash'
  if ARGV[3] ~= 'REST' then
    redis.call(ARGV[3] == 'LEFT' and 'LPUSH' or 'RPUSH', KEYS[4], ARGV[1])
  else
    redis.call('ZADD', KEYS[5], ARGV[5], ARGV[1])
    if is_job then redis.call('HSET', KEYS[1], 'attempt', ARGV[6]) end
  end
  if is_job and redis.call('HGET', KEYS[1], 'status') == 'started' then
    redis.call('HSET', KEYS[1], 'status', 'dispatched', 'updated_at', ARGV[4])
  end
  redis.call('LREM', KEYS[3], 0, ARGV[1])
end
redis.call('DEL', KEYS[2])
if KEYS[6] and redis.pcall('GET', KEYS[6]) == ARGV[1] then redis.call('DEL', KEYS[6]) end
return taken and 'released' or 'gone'
