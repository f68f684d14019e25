-- renew ARGV: clock, lease, ids of slots. It never creates a slot: its call may have ended meanwhile.
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local slots, ms = KEYS[2], tonumber(ARGV[2])
for i = 3, #ARGV do
  redis.call('ZADD', slots, 'XX', now + ms, ARGV[i])
end
return redis.call('PEXPIRE', slots, ms + 120000)
