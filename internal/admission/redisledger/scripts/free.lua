-- free ARGV: clock, the slot's id ('': none), the time of the requests and how many thousandths come back,
-- the time of the tokens and how many come back (positive) or are taken beyond them (negative). With a fifth
-- key, units, it also counts the units that follow, and returns what count returns.
if ARGV[2] ~= '' then
  redis.call('ZREM', slots, ARGV[2])
end
local rat, rc, tat, tc = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5]), tonumber(ARGV[6])
if tc < 0 then
  add(now + 1, 0, -tc)
  tc = 0
end
if rat == tat and (rc > 0 or tc > 0) then
  give(rat, rc, tc)
else
  if rc > 0 then give(rat, rc, 0) end
  if tc > 0 then give(tat, 0, tc) end
end
local reply = 0
if KEYS[5] then
  local now_u
  reply, now_u = count(KEYS[5], epoch, 5, now)
  if now_u then
    u, told = now_u, true
  end
end
keep()
return reply
