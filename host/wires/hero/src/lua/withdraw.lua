-- KEYS: the job, its work queue, its stop queue, its reply list, the jobs that are out.
-- ARGV: id, the time, the error, whether nobody watches the job any more ('1'), how long it is kept
-- then in s, whether a job that somebody has taken is left to him ('1').
-- Takes a job back: it ends here if nobody has taken it; else its worker is to stop it. A restarted host
-- must not go on with it, so its entry among the jobs that are out keeps only the worker. Once it has
-- ended, what it left is removed. What is no hash is no job any more.
local is_job = redis.call('TYPE', KEYS[1]).ok == 'hash'
local status = is_job and redis.call('HGET', KEYS[1], 'status')
local ended = not status or status == 'finished' or status == 'error'
local said = 'ended'
if not ended then
  if redis.call('LREM', KEYS[2], 0, ARGV[1]) > 0 then
    redis.call('HSET', KEYS[1], 'status', 'error', 'error', ARGV[3], 'updated_at', ARGV[2])
    ended, said = true, 'withdrawn'
  elseif ARGV[6] == '1' then
    return 'taken'
  else
    if not redis.call('LPOS', KEYS[3], ARGV[1]) then redis.call('LPUSH', KEYS[3], ARGV[1]) end
    said = 'asked'
  end
  local out = redis.call('HGET', KEYS[5], ARGV[1])
  if out then redis.call('HSET', KEYS[5], ARGV[1], string.match(out, '^[^ ]*')) end
end
if ended then redis.call('LREM', KEYS[3], 0, ARGV[1]) end
if ARGV[4] == '1' then
  if is_job and redis.call('TTL', KEYS[1]) == -1 then
    local limit = tonumber(redis.call('HGET', KEYS[1], 'timeout') or 0) or 0
    redis.call('EXPIRE', KEYS[1], math.ceil(math.min(math.max(tonumber(ARGV[5]), limit), 1e9)))
  end
  if ended then
    redis.call('DEL', KEYS[4])
    redis.call('HDEL', KEYS[5], ARGV[1])
  end
end
return said
