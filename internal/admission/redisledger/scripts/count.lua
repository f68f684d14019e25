-- count KEYS: units, sums, epoch. ARGV: as in units.lua.
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local reply, u = count(KEYS[1], KEYS[3], 0, now)
if u and redis.call('HSET', KEYS[2], 'u', u) == 1 then
  redis.call('PEXPIRE', KEYS[2], 120000, 'NX') -- as in account.lua
end
return reply
