-- KEYS: a context, the claim of a job. ARGV: host, the job's id, how long a turn is remembered in ms.
-- Gives the context's turn to the job, and returns 'taken'; or who has it, as long as a host has that
-- job; or 'lost' if the job is not this host's.
local holder = redis.pcall('GET', KEYS[2])
if type(holder) ~= 'string' or holder ~= ARGV[1] then return 'lost' end
local other = redis.call('GET', KEYS[1])
if other and other ~= ARGV[2] and redis.pcall('GET', 'hero:claim:' .. other) then return other end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 'taken'
