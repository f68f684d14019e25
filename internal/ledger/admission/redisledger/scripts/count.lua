-- count KEYS: units, epoch. ARGV: as in free.
local now = struct.unpack('<d', ARGV[1])
if now < 0 then
  local time = redis.call('TIME')
  now = time[1] * 1000 + math.floor(time[2] / 1000)
end
return tally(KEYS[1], KEYS[2], now)
