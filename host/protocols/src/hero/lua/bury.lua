-- KEYS: the dead letters, the processing list. ARGV: the letter, how many letters are kept, the id,
-- whether the id leaves the processing list ('1'). A list that takes nothing ends this, and the id
-- stays where it is.
if ARGV[4] == '1' and not redis.call('LPOS', KEYS[2], ARGV[3]) then return 'gone' end
redis.call('LPUSH', KEYS[1], ARGV[1])
redis.call('LTRIM', KEYS[1], 0, tonumber(ARGV[2]) - 1)
if ARGV[4] == '1' then redis.call('LREM', KEYS[2], 1, ARGV[3]) end
return 'buried'
