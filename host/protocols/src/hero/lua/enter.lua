-- KEYS: the job, the work queue, the jobs that wait, then the jobs that it depends on.
-- ARGV: id, the time in ms, how many dependents a job is told of, then pairs of a field and its
-- value. Queues the job, or lets it wait, and returns what for.
-- A job that is there already is left as it is: the command was sent again.
if redis.call('EXISTS', KEYS[1]) == 1 then return {'known'} end
local open = {}
for place = 4, #KEYS do
  local key = KEYS[place]
  local is_hash = redis.call('TYPE', key).ok == 'hash'
  if not is_hash or redis.call('HGET', key, 'status') ~= 'finished' then
    open[#open + 1] = string.sub(key, #'hero:job:' + 1)
  end
  if is_hash and redis.call('HSTRLEN', key, 'dependents') < 65536 then
    local text = redis.call('HGET', key, 'dependents')
    if not text or text == '' or text == 'null' then text = '[]' end
    local read, list = pcall(cjson.decode, text)
    if read and type(list) == 'table' and (#list > 0 or next(list) == nil)
      and #list < tonumber(ARGV[3]) then
      list[#list + 1] = ARGV[1]
      redis.call('HSET', key, 'dependents', cjson.encode(list))
    end
  end
end
redis.call('HSET', KEYS[1], unpack(ARGV, 4))
if #open == 0 then
  redis.call('HSET', KEYS[1], 'waits_for', '[]')
  redis.call('LPUSH', KEYS[2], ARGV[1])
  return {'queued'}
end
redis.call('HSET', KEYS[1], 'waits_for', cjson.encode(open))
redis.call('ZADD', KEYS[3], ARGV[2], ARGV[1])
return {'waits', unpack(open)}
