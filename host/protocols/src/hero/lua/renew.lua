-- KEYS: claims. ARGV: host, how long they hold in ms. Returns the places, counted from 1, of those
-- that another host has taken.
local lost = {}
for i, key in ipairs(KEYS) do
  local holder = redis.pcall('GET', key)
  if holder and holder ~= ARGV[1] then
    lost[#lost + 1] = i
  else
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
  end
end
return lost
