-- leave KEYS: as in beat. ARGV: the node.
if redis.call('ZREM', KEYS[1], ARGV[1]) == 1 then
  redis.call('HDEL', KEYS[2], 'seen:' .. ARGV[1])
  redis.call('HINCRBY', KEYS[2], 'version', 1)
  redis.call('HSET', KEYS[2], 'seen', 0)
end
return 0
