-- KEYS: the job, the jobs that wait, the stop queue, its reply list.
-- ARGV: id, the time, the error, the reply, how long the reply is kept in s, how many stops are
-- looked at. A job that waits for others ends here: no worker knows of it.
if redis.call('TYPE', KEYS[1]).ok ~= 'hash' then return 'missing' end
local status = redis.call('HGET', KEYS[1], 'status')
if status == 'finished' or status == 'error' then return 'ended' end
if redis.pcall('ZREM', KEYS[2], ARGV[1]) == 1 then
  redis.call('HSET', KEYS[1], 'status', 'error', 'error', ARGV[3], 'updated_at', ARGV[2])
  local replies = redis.pcall('LPUSH', KEYS[4], ARGV[4])
  if type(replies) == 'number' then redis.call('EXPIRE', KEYS[4], ARGV[5]) end
  return 'stopped'
end
if not redis.call('LPOS', KEYS[3], ARGV[1], 'MAXLEN', ARGV[6]) then
  redis.call('LPUSH', KEYS[3], ARGV[1])
end
return 'asked'
