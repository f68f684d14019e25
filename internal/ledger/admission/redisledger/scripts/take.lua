-- take ARGV: the numbers are the clock, limits of requests (thousandths), tokens and slots (-1: unlimited),
-- costs in requests (thousandths) and tokens, the slot's lease in milliseconds; then the slot's id.
-- It returns a code (0: taken; 1, 2, 3: requests, tokens or slots are in the way), the wait in milliseconds
-- (-1: forever), what is used of the thing in the way (if taken: of the slots), the time of the record, and the
-- standing.
local _, rl, tl, sl, rc, tc, ms = struct.unpack('<ddddddd', ARGV[1])
clock()
read(0)
expire()

-- wait returns how long a cost must wait until enough of the oldest records have expired.
local function wait(over, tokens)
  for i = first, count - 1 do
    local at, er, et = record(i)
    over = over - (tokens and et or er)
    if over <= 0 then
      return at + SPAN - now
    end
  end
  return SPAN
end

local code, used, most, cost = 0, 0, 0, 0
if rl >= 0 and r + rc > rl then
  code, used, most, cost = 1, r, rl, rc
elseif tl >= 0 and t + tc > tl then
  code, used, most, cost = 2, t, tl, tc
end
if code ~= 0 then
  keep()
  return standing(code, cost > most and -1 or wait(used + cost - most, code == 2), used, 0)
end

local running = redis.call('ZCARD', slots)
if running > 0 and (due() or sl >= 0 and running >= sl) then
  -- Leases that nobody has renewed have ended.
  running = running - redis.call('ZREMRANGEBYSCORE', slots, '-inf', now)
end
if sl >= 0 and running >= sl then
  keep()
  return standing(3, sl == 0 and -1 or 0, running, 0)
end

add(now + 1, rl >= 0 and rc or 0, tl >= 0 and tc or 0)
local tell = due()
lease(ARGV[2], ms, tell or running == 0)
if tell then
  told = now
end
keep(tell)
return standing(0, 0, running + 1, now + 1)
