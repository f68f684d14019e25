-- beat KEYS: nodes, a sorted set of node ids by the time of their last beat; table, a hash with born (when
-- it was created), version (it changes with the list of nodes), and for each node the version it has seen.
-- ARGV: clock, node, the version that the node has seen, milliseconds after which a silent node is
-- forgotten, milliseconds for which a new table waits for nodes, the nodes that it remembers from before.
-- It returns the time, born, how many milliseconds ago that was, version, 1 if every node has seen this
-- version, and the nodes in order.
local nodes, tab = KEYS[1], KEYS[2]
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local id, forget = ARGV[2], tonumber(ARGV[4])

local born = redis.call('HGET', tab, 'born')
if not born then
  -- A new table, or one whose server has lost its data: then the nodes that this one remembers still go by
  -- their shares, and keep their places until they have been silent for long enough.
  born = string.format('%.0f', clock[1] * 1000000 + clock[2])
  redis.call('DEL', nodes)
  redis.call('HSET', tab, 'born', born, 'bornAt', now, 'version', born)
  for i = 6, #ARGV do
    redis.call('ZADD', nodes, now, ARGV[i])
  end
end

local changed = false
for _, gone in ipairs(redis.call('ZRANGEBYSCORE', nodes, '-inf', now - forget)) do
  if gone ~= id then
    redis.call('ZREM', nodes, gone)
    redis.call('HDEL', tab, 'seen:' .. gone)
    changed = true
  end
end
if redis.call('ZADD', nodes, now, id) == 1 then
  changed = true
end
redis.call('HSET', tab, 'seen:' .. id, ARGV[3])
if changed then
  redis.call('HINCRBY', tab, 'version', 1)
end

local version = redis.call('HGET', tab, 'version')
local all = redis.call('ZRANGE', nodes, 0, -1)
table.sort(all)
-- Nodes that have a share from a table that was lost beat within the first moments of a new one.
local age = now - tonumber(redis.call('HGET', tab, 'bornAt'))
local settled = age < tonumber(ARGV[5]) and 0 or 1
for _, node in ipairs(all) do
  if redis.call('HGET', tab, 'seen:' .. node) ~= version then
    settled = 0
  end
end
-- The table outlives an outage of every node, so that it is not taken for lost.
redis.call('PEXPIRE', nodes, 86400000)
redis.call('PEXPIRE', tab, 86400000)
return { string.format('%.0f', now), born, string.format('%.0f', age), version, tostring(settled), unpack(all) }
