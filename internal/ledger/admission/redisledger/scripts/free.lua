-- free ARGV: the numbers are the clock, the time of the requests and how many thousandths come back, the
-- time of the tokens and how many come back (positive) or are taken beyond them (negative); then the slot's
-- id ('': none). With a fourth key, units, it also adds the units that follow, and returns what tally returns.
if ARGV[2] ~= '' then
  redis.call('ZREM', slots, ARGV[2])
end
local _, rat, rc, tat, tc = struct.unpack('<ddddd', ARGV[1])
local result = 0
if KEYS[4] then
  clock()
  result = tally(KEYS[4], epoch, now)
end
if rc == 0 and tc == 0 then
  return result
end
read(PAGE)
local more = tc < 0
if more then
  clock()
  add(now + 1, 0, -tc)
  tc = 0
end
if rat == tat then
  give(rat, rc, tc)
else
  if rc > 0 then give(rat, rc, 0) end
  if tc > 0 then give(tat, 0, tc) end
end
keep(more) -- what is taken now may outlive what was there
return result
