-- KEYS: claims. ARGV: host, how long they hold in ms, how many of the first are taken if nobody has
-- them; the ends of the jobs of the others are on their way. Returns the places, counted from 1, of those
-- that another host has taken.
local lost = {}
for i, key in ipairs(KEYS) do
  local holder = redis.pcall('GET', key)
  if holder and holder ~= ARGV[1] then
    lost[#lost + 1] = i
  elseif holder or i <= tonumber(ARGV[3]) then
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
  end
end
return lost
