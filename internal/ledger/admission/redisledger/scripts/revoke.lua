-- revoke KEYS: the epoch. ARGV: how long it is kept, in milliseconds. It returns the new epoch.
-- An epoch is the time in microseconds, or one more than the last: a server that has lost its data never
-- repeats a value that a node may have seen. The sign is a mark of units.lua and stays.
local clock = redis.call('TIME')
local old, u = 0, 0
local text = redis.call('GET', KEYS[1])
if text then
  old, u = struct.unpack('<dd', text)
end
local value = math.max(clock[1] * 1000000 + clock[2], math.abs(old) + 1)
redis.call('SET', KEYS[1], struct.pack('<dd', old < 0 and -value or value, u), 'PX', ARGV[1])
return value
