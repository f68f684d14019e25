-- take ARGV: clock, limits of requests (thousandths), tokens and slots (-1: unlimited), costs in requests
-- (thousandths) and tokens, the slot's id, its lease in milliseconds.
-- It returns a code (0: taken; 1, 2, 3: requests, tokens or slots are in the way), the wait in milliseconds
-- (-1: forever), what is used of the thing in the way, the time of the entry, and the standing.
local rl, tl, sl = tonumber(ARGV[2]), tonumber(ARGV[3]), tonumber(ARGV[4])
local rc, tc = tonumber(ARGV[5]), tonumber(ARGV[6])

-- delay returns how long a cost must wait until enough of the oldest entries have expired.
local function delay(sum, cost, limit, tokens)
  if cost > limit then
    return -1
  end
  local over = sum + cost - limit
  if over <= 0 then
    return 0
  end
  local from = 0
  while true do
    local page = redis.call('ZRANGE', entries, from, from + 63)
    for _, member in ipairs(page) do
      local at, er, et = parse(member)
      over = over - (tokens and et or er)
      if over <= 0 then
        return at + SPAN - now
      end
    end
    if #page == 0 then
      return SPAN
    end
    from = from + #page
  end
end

if rl >= 0 then
  local wait = delay(r, rc, rl, false)
  if wait ~= 0 then
    keep()
    return standing(1, wait, r, 0)
  end
else
  rc = 0
end
if tl >= 0 then
  local wait = delay(t, tc, tl, true)
  if wait ~= 0 then
    keep()
    return standing(2, wait, t, 0)
  end
else
  tc = 0
end
redis.call('ZREMRANGEBYSCORE', slots, '-inf', now) -- leases that nobody has renewed
local running = redis.call('ZCARD', slots)
if sl >= 0 and running >= sl then
  keep()
  return standing(3, sl == 0 and -1 or 0, running, 0)
end

add(now + 1, rc, tc)
lease(ARGV[7], tonumber(ARGV[8]))
keep()
return standing(0, 0, 0, now + 1)
