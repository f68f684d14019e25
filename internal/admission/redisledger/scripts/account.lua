-- What every script about one account begins with. Its keys are in one hash slot:
--   sums     a hash: r and t, what the window holds of requests (in thousandths) and tokens; ra and ta, the
--            latest entry that took any; x, when the keys were last told to expire; u, a copy of u in units.lua
--   entries  a sorted set: one member "at:requests:tokens" for each millisecond in which something was taken
--   slots    a sorted set: the calls that are running, by the time at which their lease ends
--   epoch    a number that changes when a fact about the account is revoked; negative while the account's keys
--            are marked as switched off
-- ARGV[1] is the time in milliseconds; '' means the time of this server.
--
-- An entry is at the end of its millisecond and counts until a minute later, as in the ledger in memory.
-- All numbers are whole and below 2^53, so a double holds them exactly.
local SPAN, TTL = 60000, 120000
local sums, entries, slots, epoch = KEYS[1], KEYS[2], KEYS[3], KEYS[4]

local now = tonumber(ARGV[1])
if not now then
  local clock = redis.call('TIME')
  now = clock[1] * 1000 + math.floor(clock[2] / 1000)
end

local function parse(member)
  local at, er, et = string.match(member, '^(%d+):(%d+):(%d+)$')
  return tonumber(at), tonumber(er), tonumber(et)
end

-- write stores an entry, in place of another of the same time if there is one. The new one comes first: a
-- set that was empty in between would forget when it expires.
local function write(at, er, et, other)
  local member = string.format('%.0f:%.0f:%.0f', at, er, et)
  if member ~= other then
    redis.call('ZADD', entries, at, member)
    if other then redis.call('ZREM', entries, other) end
  end
end

local state = redis.call('HMGET', sums, 'r', 't', 'ra', 'ta', 'x', 'u')
local r, t, ra, ta, x = tonumber(state[1] or 0), tonumber(state[2] or 0), tonumber(state[3] or 0), tonumber(state[4] or 0), tonumber(state[5] or 0)
local changed = false
local u, told = state[6] or '0', false -- told: u has changed

if math.max(ra, ta) > now + 2 * SPAN then
  -- The clock was set back, or another server with another clock has taken over. Entries that far in the
  -- future would block the account for as long. A smaller step is left alone: it delays calls by as much.
  redis.call('DEL', sums, entries)
  r, t, ra, ta, x = 0, 0, 0, 0, 0
end

-- Entries that are a minute old no longer count.
local old = redis.call('ZRANGEBYSCORE', entries, '-inf', now - SPAN)
if #old > 0 then
  redis.call('ZREMRANGEBYSCORE', entries, '-inf', now - SPAN)
  for _, member in ipairs(old) do
    local _, er, et = parse(member)
    r, t = r - er, t - et
  end
  changed = true
end
if x == 0 then
  -- No sums: the account is new, or the server has evicted them. The entries know.
  r, t = 0, 0
  for _, member in ipairs(redis.call('ZRANGE', entries, 0, -1)) do
    local at, er, et = parse(member)
    r, t, ra, ta = r + er, t + et, math.max(ra, at), math.max(ta, at)
  end
end

-- add counts a cost at a time, which need not be the latest.
local function add(at, rc, tc)
  if rc == 0 and tc == 0 then
    return
  end
  local same, er, et = nil, 0, 0
  if at <= math.max(ra, ta) then
    same = redis.call('ZRANGEBYSCORE', entries, at, at)[1]
    if same then
      at, er, et = parse(same)
    end
  end
  write(at, er + rc, et + tc, same)
  if r == 0 and t == 0 then
    x = 0 -- the set may be new, and then has no time to live yet
  end
  r, t = r + rc, t + tc
  if rc > 0 then ra = math.max(ra, at) end
  if tc > 0 then ta = math.max(ta, at) end
  changed = true
end

-- give returns a cost to the entry of a time, unless it has expired.
local function give(at, rc, tc)
  local same = redis.call('ZRANGEBYSCORE', entries, at, at)[1]
  if not same then
    return
  end
  local _, er, et = parse(same)
  rc, tc = math.min(rc, er), math.min(tc, et)
  write(at, er - rc, et - tc, same)
  r, t = r - rc, t - tc
  changed = true
end

-- lease holds a slot for some time.
local function lease(id, ms)
  redis.call('ZADD', slots, now + ms, id)
  redis.call('PEXPIRE', slots, ms + TTL)
end

-- keep stores the sums. Keys that nobody uses go away by themselves; telling them so at each call would be
-- half of the work, so it is done when a fourth of the time is over.
local function keep()
  if not changed then
    -- The hash may be new and then needs a time to live. It must not outlive the entries that it is about.
    if told and redis.call('HSET', sums, 'u', u) == 1 then
      redis.call('PEXPIRE', sums, TTL, 'NX')
    end
    return
  end
  if now - x > TTL / 4 or x > now then
    x = now
    redis.call('HSET', sums, 'r', r, 't', t, 'ra', ra, 'ta', ta, 'x', x, 'u', u)
    redis.call('PEXPIRE', sums, TTL)
    redis.call('PEXPIRE', entries, TTL)
  else
    redis.call('HSET', sums, 'r', r, 't', t, 'ra', ra, 'ta', ta, 'u', u)
  end
end

-- reset returns the milliseconds until a window is empty.
local function reset(sum, last)
  if sum == 0 then
    return 0
  end
  return last + SPAN - now
end

-- standing is the end of every reply about an account. An account of which nothing was revoked is in epoch 1.
local function standing(code, wait, used, at)
  return { code, wait, used, at, r, t, reset(r, ra), reset(t, ta), tonumber(redis.call('GET', epoch) or 1), tonumber(u) }
end
