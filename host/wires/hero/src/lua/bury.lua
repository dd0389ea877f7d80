-- KEYS: the dead letters, the processing list, the job if the id may name one that leaves the list. ARGV: the letter, how many letters are kept, the id,
-- whether the id leaves the processing list ('1'). A list that takes nothing ends this, and the id
-- stays where it is.
if ARGV[4] == '1' and not redis.call('LPOS', KEYS[2], ARGV[3]) then return 'gone' end
-- The job can run now: it was stored late, or Redis has lost its end.
if KEYS[3] and redis.call('TYPE', KEYS[3]).ok == 'hash' then
  local status = redis.call('HGET', KEYS[3], 'status')
  if status ~= 'finished' and status ~= 'error' then return 'open' end
end
redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], 0, tonumber(ARGV[2]) - 1)
if ARGV[4] == '1' then redis.call('LREM', KEYS[2], 1, ARGV[3]) end
return 'buried'
