-- beat KEYS: nodes, a sorted set of node ids by the time of their last beat; table, a hash with born (when
-- it was created), last (the last beat of any node), version (it changes with the list of nodes), for each
-- node the version it has seen, and seen, the number of nodes that have seen the present one.
-- ARGV: clock, node, the version that the node has seen, milliseconds after which a silent node is
-- forgotten, milliseconds for which a new table waits for nodes, born of the table that the node knows, the
-- nodes that it remembers from there.
-- It returns the time, born, how many milliseconds ago that was, version, 1 if every node has seen this
-- version, 1 if the table stands for one that was lost, and the nodes in any order if this one has not seen
-- the version. So a beat costs the same for any number of nodes while their list is the same.
local nodes, tab = KEYS[1], KEYS[2]
local clock = redis.call('TIME')
local now = tonumber(ARGV[1]) or clock[1] * 1000 + math.floor(clock[2] / 1000)
local id, forget, wait = ARGV[2], tonumber(ARGV[4]), tonumber(ARGV[5])

local born = redis.call('HGET', tab, 'born')
if not born then
  -- A new table, or one whose server has lost its data: then the nodes that this one remembers still go by
  -- their shares, and keep their places until they have been silent for long enough.
  born = string.format('%.0f', clock[1] * 1000000 + clock[2])
  redis.call('DEL', nodes)
  redis.call('HSET', tab, 'born', born, 'bornAt', now, 'version', born, 'seen', 0, 'last', now, 'heard', now)
  for i = 7, #ARGV do
    redis.call('ZADD', nodes, now, ARGV[i])
  end
end
if ARGV[6] ~= '' and ARGV[6] ~= born then
  redis.call('HSET', tab, 'lost', 1)
  if ARGV[3] ~= '' then
    redis.call('HSET', tab, 'kept', 1) -- a node that has seen a list of the lost table, and has a share by it
  end
end

-- Silence counts only while some node is heard: after an outage of this server all have been silent, and go
-- by their shares.
if now - tonumber(redis.call('HGET', tab, 'last')) > wait then
  redis.call('HSET', tab, 'heard', now)
end
redis.call('HSET', tab, 'last', now)

local changed = false
if now - tonumber(redis.call('HGET', tab, 'heard')) >= forget then
  for _, gone in ipairs(redis.call('ZRANGEBYSCORE', nodes, '-inf', now - forget)) do
    if gone ~= id then
      redis.call('ZREM', nodes, gone)
      redis.call('HDEL', tab, 'seen:' .. gone)
      changed = true
    end
  end
end
if redis.call('ZADD', nodes, now, id) == 1 then
  changed = true
end
if changed then
  redis.call('HINCRBY', tab, 'version', 1)
  redis.call('HSET', tab, 'seen', 0)
end

local version = redis.call('HGET', tab, 'version')
if redis.call('HGET', tab, 'seen:' .. id) ~= ARGV[3] then
  redis.call('HSET', tab, 'seen:' .. id, ARGV[3])
  if ARGV[3] == version then
    redis.call('HINCRBY', tab, 'seen', 1)
  end
end
-- Nodes that have a share from a table that was lost beat within the first moments of a new one. What they admit
-- on it counts for a minute, and Redis does not count before that: until then nobody goes by a new list alone.
local age = now - tonumber(redis.call('HGET', tab, 'bornAt'))
if redis.call('HGET', tab, 'kept') then
  wait = math.max(wait, 60000)
end
local settled = '0'
if age >= wait and tonumber(redis.call('HGET', tab, 'seen')) == redis.call('ZCARD', nodes) then
  settled = '1'
end
-- The table outlives an outage of every node, so that it is not taken for lost.
redis.call('PEXPIRE', nodes, 86400000)
redis.call('PEXPIRE', tab, 86400000)
local lost = redis.call('HGET', tab, 'lost') or '0'
local reply = { string.format('%.0f', now), born, string.format('%.0f', age), version, settled, lost }
if ARGV[3] ~= version then
  for i, node in ipairs(redis.call('ZRANGE', nodes, 0, -1)) do
    reply[6 + i] = node
  end
end
return reply
