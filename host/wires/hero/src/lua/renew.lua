-- KEYS: claims, then contexts. ARGV: host, how long claims hold in ms, how many of the first are taken
-- if nobody has them (the ends of the jobs of the others are on their way), how many claims there
-- are, how long a turn is remembered in ms, then the job that has the turn of each context. Returns
-- the places, counted from 1, of the claims that another host has taken and of the turns that are lost.
local lost = {}
local claims = tonumber(ARGV[4])
for i, key in ipairs(KEYS) do
  local holder = redis.pcall('GET', key)
  if i > claims then
    local job = ARGV[5 + i - claims]
    if holder == job then
      redis.call('SET', key, job, 'PX', ARGV[5])
    else
      lost[#lost + 1] = i
    end
  elseif holder and holder ~= ARGV[1] then
    lost[#lost + 1] = i
  elseif holder or i <= tonumber(ARGV[3]) then
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
  end
end
return lost
