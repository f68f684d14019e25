-- revoke KEYS: the epoch. ARGV: how long it is kept, in milliseconds. It returns the new epoch.
-- An epoch is the time in microseconds, or one more than the last: a server that has lost its data never
-- repeats a value that a node may have seen. The sign is a mark of units.lua and stays.
local clock = redis.call('TIME')
local old = tonumber(redis.call('GET', KEYS[1]) or 0)
local value = math.max(clock[1] * 1000000 + clock[2], math.abs(old) + 1)
redis.call('SET', KEYS[1], string.format('%.0f', old < 0 and -value or value), 'PX', ARGV[1])
return value
