-- KEYS: a work queue, its processing list. ARGV: how many entries of each are looked at, then ids.
-- Returns the places of the ids that are in neither list; none of them if a list is longer.
local there = {}
for _, key in ipairs(KEYS) do
  if redis.call('LLEN', key) > tonumber(ARGV[1]) then return {} end
  for _, id in ipairs(redis.call('LRANGE', key, 0, -1)) do there[id] = true end
end
local absent = {}
for place = 2, #ARGV do
  if not there[ARGV[place]] then absent[#absent + 1] = place - 2 end
end
return absent
