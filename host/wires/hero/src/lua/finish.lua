-- KEYS: the job, its claim, the processing list, the reply list, the stop queue, its context if only
-- one of its jobs runs at once.
-- ARGV: id, host, status, 'output' or 'error', its text, the time, the reply to an error (an output
-- is its own reply and comes only once), how long the reply is kept in s, how long the job is kept in s
-- or 0, whether a stop is there for it, whether it ran in its context's turn ('1'): if another job has
-- that now, it is to run again.
-- Keys that hold something else by now are left as they are.
local holder = redis.pcall('GET', KEYS[2])
if holder and holder ~= ARGV[2] then return 'held' end
if KEYS[6] then
  if redis.pcall('GET', KEYS[6]) == ARGV[1] then
    redis.call('DEL', KEYS[6])
  elseif ARGV[11] == '1' then
    return 'held'
  end
end
redis.call('LREM', KEYS[3], 0, ARGV[1])
if ARGV[10] == '1' then redis.pcall('LREM', KEYS[5], 0, ARGV[1]) end
redis.call('DEL', KEYS[2])
if redis.call('TYPE', KEYS[1]).ok == 'hash' then
  local status = redis.call('HGET', KEYS[1], 'status')
  if status == 'finished' or status == 'error' then return 'ended' end
  redis.call('HSET', KEYS[1], 'status', ARGV[3], ARGV[4], ARGV[5], 'updated_at', ARGV[6])
  redis.call('HDEL', KEYS[1], ARGV[4] == 'output' and 'error' or 'output')
  if ARGV[9] ~= '0' then redis.call('EXPIRE', KEYS[1], ARGV[9]) end
end
local replies = redis.pcall('LPUSH', KEYS[4], ARGV[4] == 'output' and ARGV[5] or ARGV[7])
if type(replies) == 'number' then redis.call('EXPIRE', KEYS[4], ARGV[8]) end
return 'written'
