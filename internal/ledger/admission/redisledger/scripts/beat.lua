-- beat KEYS: table, a hash with born (it names the data of this server, and is the time at which it was new),
-- bornAt (the same by the clock of the scripts), lost (if the data stands for some that were lost), and list (the
-- number of the lists that nodes in touch with the database go by).
-- ARGV: clock, born of the data that the node knows or nothing, the number of its lists or nothing if it has been
-- cut off from the database.
-- It returns the time, born, how many milliseconds ago that was, 1 if data was lost, and list (-1: not known),
-- with spaces between. A beat is a write: a server that refuses writes must not be taken for one that counts.
local tab = KEYS[1]
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)

local born = redis.call('HGET', tab, 'born')
if not born then
  born = string.format('%.0f', clock[1] * 1000000 + clock[2])
  redis.call('HSET', tab, 'born', born, 'bornAt', now)
end
if ARGV[2] ~= '' and ARGV[2] ~= born then
  redis.call('HSET', tab, 'lost', 1)
end
if ARGV[3] ~= '' then
  redis.call('HSET', tab, 'list', ARGV[3])
end
-- It outlives an outage of every node, so that it is not taken for lost.
redis.call('PEXPIRE', tab, 86400000)
local age = now - tonumber(redis.call('HGET', tab, 'bornAt'))
local lost, list = redis.call('HGET', tab, 'lost') or '0', redis.call('HGET', tab, 'list') or '-1'
return string.format('%.0f %s %.0f %s %s', now, born, age, lost, list)
