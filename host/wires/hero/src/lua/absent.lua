-- KEYS: a work queue, its processing list, its jobs that rest. ARGV: how many entries of each list are
-- looked at, then ids.
-- Returns the places of the ids that are in none of them; none of the ids if a list is longer.
local there = {}
for _, key in ipairs({KEYS[1], KEYS[2]}) do
  if redis.call('LLEN', key) > tonumber(ARGV[1]) then return {} end
  for _, id in ipairs(redis.call('LRANGE', key, 0, -1)) do there[id] = true end
end
local absent = {}
for place = 2, #ARGV do
  local id = ARGV[place]
  if not there[id] and not redis.pcall('ZSCORE', KEYS[3], id) then absent[#absent + 1] = place - 2 end
end
return absent
