-- KEYS: the job, the work queue, the jobs that wait, then the jobs that it depends on.
-- ARGV: id, the time in ms, how many dependents a job is told of, then pairs of a field and its
-- value. Queues the job, or lets it wait, and returns what for.
-- A job that is there already is left as it is: the command was sent again. A queue that takes
-- nothing ends this before anything is stored.
if redis.call('EXISTS', KEYS[1]) == 1 then return {'known'} end
local open = {}
local hashes = {}
for place = 4, #KEYS do
  local key = KEYS[place]
  if redis.call('TYPE', key).ok == 'hash' then hashes[#hashes + 1] = key end
  if redis.pcall('HGET', key, 'status') ~= 'finished' then
    open[#open + 1] = string.sub(key, #'hero:job:' + 1)
  end
end
if #open == 0 then
  redis.call('LPUSH', KEYS[2], ARGV[1])
else
  redis.call('ZADD', KEYS[3], ARGV[2], ARGV[1])
end
local waits_for = #open == 0 and '[]' or cjson.encode(open)
redis.call('HSET', KEYS[1], 'waits_for', waits_for, unpack(ARGV, 4))
for _, key in ipairs(hashes) do
  if redis.call('HSTRLEN', key, 'dependents') < 65536 then
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
return {#open == 0 and 'queued' or 'waits', unpack(open)}
