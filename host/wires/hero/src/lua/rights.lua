-- KEYS: a worker's work queue, processing list, stop queue and dead letters, a job, its claim, its
-- reply list. Returns which commands of a worker our user may not run on them: the list of what a
-- worker needs. Nothing where Redis does not tell (before 7).
if not redis.acl_check_cmd then return {} end
local missing = {}
local function needs(name, ...)
  if not redis.acl_check_cmd(name, ...) then missing[#missing + 1] = name end
end
local queue, processing, stops, letters, job, claim, reply, resting = unpack(KEYS)
needs('BLMOVE', queue, processing, 'RIGHT', 'LEFT', '0')
needs('DEL', claim)
needs('EXPIRE', reply, '1')
needs('GET', claim)
needs('HDEL', job, 'output')
needs('HGET', job, 'status')
needs('HMGET', job, 'id')
needs('HSET', job, 'status', 'x')
needs('LLEN', queue)
needs('LMOVE', queue, processing, 'RIGHT', 'LEFT')
needs('LPOS', stops, 'x')
needs('LPUSH', letters, 'x')
needs('LRANGE', processing, '0', '0')
needs('LREM', processing, '0', 'x')
needs('LTRIM', letters, '0', '0')
needs('RPUSH', queue, 'x')
needs('SET', claim, 'x')
needs('TYPE', job)
needs('ZADD', resting, '1', 'x')
needs('ZCARD', resting)
needs('ZRANGEBYSCORE', resting, '0', '1')
needs('ZREM', resting, 'x')
return missing
