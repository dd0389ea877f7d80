-- KEYS: the job, its claim, the stop queue.
-- ARGV: id, host, how long the claim holds in ms, how many stops are looked at, whether a job that
-- nobody has is taken ('1') or only one that is ours ('0'), how many fields are wanted, those fields,
-- and the longest value of each that is taken; of a longer one the length is returned.
-- A claim that is no text is somebody else's; stops that are no list are none.
local kind = redis.call('TYPE', KEYS[1]).ok
if kind == 'none' then return {'missing'} end
if kind ~= 'hash' then return {'no_hash'} end
local status = redis.call('HGET', KEYS[1], 'status')
if status == 'finished' or status == 'error' then return {'ended'} end
local holder = redis.pcall('GET', KEYS[2])
if holder and holder ~= ARGV[2] then return {'held'} end
if not holder and ARGV[5] == '0' then return {'free'} end
redis.call('SET', KEYS[2], ARGV[2], 'PX', ARGV[3])
local stop = redis.pcall('LPOS', KEYS[3], ARGV[1], 'MAXLEN', ARGV[4])
local found = {'claimed', type(stop) == 'number' and 1 or 0}
local count = tonumber(ARGV[6])
-- One command for all of them: each costs Redis more than what it does.
local values = redis.call('HMGET', KEYS[1], unpack(ARGV, 7, 6 + count))
for i = 1, count do
  local value = values[i]
  if value and #value > tonumber(ARGV[6 + count + i]) then value = #value end
  found[2 + i] = value
end
return found
