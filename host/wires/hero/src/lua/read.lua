-- KEYS: jobs. ARGV: pairs of a field and the longest value of it that is returned; of a longer one
-- the length is. What is no hash is nothing.
local found = {}
for place, key in ipairs(KEYS) do
  found[place] = false
  if redis.call('TYPE', key).ok == 'hash' then
    local values = {}
    for i = 1, #ARGV, 2 do
      local bytes = redis.call('HSTRLEN', key, ARGV[i])
      if bytes > tonumber(ARGV[i + 1]) then
        values[#values + 1] = bytes
      else
        values[#values + 1] = redis.call('HGET', key, ARGV[i])
      end
    end
    found[place] = values
  end
end
return found
