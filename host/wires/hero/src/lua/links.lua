-- KEYS: jobs. ARGV: the longest list that is returned, in bytes. Returns for each job the lists of
-- jobs that it waits for (`waits_for`, `prerequisites`, `dependencies`); none for one that has begun
-- or is no hash.
local found = {}
for place, key in ipairs(KEYS) do
  found[place] = false
  if redis.call('TYPE', key).ok == 'hash' then
    local values = redis.call('HMGET', key, 'status', 'waits_for', 'prerequisites', 'dependencies')
    if not values[1] or values[1] == 'dispatched' then
      local lists = {}
      for i = 2, 4 do
        local list = values[i]
        if list and #list > tonumber(ARGV[1]) then list = false end
        lists[i - 1] = list
      end
      found[place] = lists
    end
  end
end
return found
