-- quota KEYS: the count of a key's units in a month: two numbers, what is used or reserved in thousandths, and the
-- number of the count, which is the time in microseconds at which it was begun.
-- ARGV: numbers, as in account.lua: what to do, three amounts, and how long the count is kept in milliseconds.
--   0 reserve: the limit and the units. It adds the units unless that would exceed the limit.
--   1 adjust:  a number of the count, what to add to that count, and what to add to one with another number.
--   2 raise:   what the count is at least. It begins the count if there is none.
-- It returns 1 if units were reserved, what is used, and the number of the count; 0: there is none.
local what, a, b, c, ttl = struct.unpack('<ddddd', ARGV[1])
local used, made = 0, 0
local text = redis.call('GET', KEYS[1])
if text then
  used, made = struct.unpack('<dd', text)
elseif what ~= 2 then
  return struct.pack('<ddd', 0, 0, 0)
end
local before, ok = used, 0
if what == 0 then
  if used + b <= a then
    used, ok = used + b, 1
  end
elseif what == 1 then
  used = math.max(0, used + (made == a and b or c))
else
  used = math.max(used, a)
  if made == 0 then
    local time = redis.call('TIME')
    made = time[1] * 1000000 + time[2]
  end
end
if used ~= before or not text then
  redis.call('SET', KEYS[1], struct.pack('<dd', used, made), 'PX', string.format('%.0f', ttl))
end
return struct.pack('<ddd', ok, used, made)
