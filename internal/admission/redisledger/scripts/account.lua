-- What every script about one account begins with. Its keys are in one hash slot:
--   window  a string of numbers, what the account took in the last minute; see below
--   slots   a sorted set: the calls that are running, by the time at which their lease ends
--   epoch   a number that changes when a fact about the account is revoked
-- ARGV[1] is a string of numbers, of which the first is the time in milliseconds; -1: that of this server.
--
-- A string of numbers holds doubles, least byte first: they need no formatting and no parsing, which would
-- cost more than all the rest. All numbers are whole and below 2^53, so a double holds them exactly.
--
-- The window begins with a head of 8 numbers and goes on with a record for each millisecond in which
-- something was taken, in the order of their time: time, requests in thousandths, tokens. A record is at the
-- end of its millisecond and counts until a minute later, as in the ledger in memory. The window of most
-- accounts has few records: then all of it is read at once and written at once. A longer one is read and
-- written in pieces, so that a call costs the same however many there are.
local SPAN, TTL, PAGE = 60000, 120000, 64
local HEAD, SIZE = 64, 24
local window, slots, epoch = KEYS[1], KEYS[2], KEYS[3]

local now = struct.unpack('<d', ARGV[1])
local function clock()
  if now < 0 then
    local time = redis.call('TIME')
    now = time[1] * 1000 + math.floor(time[2] / 1000)
  end
end

-- The head: how many of the records no longer count, how many there are with those, the sums of requests
-- and tokens that count, the latest records that took any, the time of the oldest record that counts, and
-- when the slots were last told to expire.
local first, count, r, t, ra, ta, oldest, told = 0, 0, 0, 0, 0, 0, 0, 0
local text, whole, changed = '', true, false
-- The records that have been read of a long window begin with number base.
local page, base = '', 0

local function read()
  text = redis.call('GETRANGE', window, 0, HEAD + PAGE * SIZE - 1)
  if text ~= '' then
    first, count, r, t, ra, ta, oldest, told = struct.unpack('<dddddddd', text)
    whole = count <= PAGE
  end
end

-- record returns time, requests and tokens of a record. The number of the first is 0.
local function record(i)
  if whole then
    return struct.unpack('<ddd', text, HEAD + i * SIZE + 1)
  end
  if page == '' or i < base or i >= base + PAGE then
    base = i - i % PAGE
    page = redis.call('GETRANGE', window, HEAD + base * SIZE, HEAD + (base + PAGE) * SIZE - 1)
  end
  return struct.unpack('<ddd', page, (i - base) * SIZE + 1)
end

-- find returns the number of the first record that is not before a time.
local function find(at)
  local lo, hi = first, count
  if not whole and at > record(count - 1 - (count - 1) % PAGE) then
    lo = math.max(lo, base) -- on the last page, as almost always
  end
  while lo < hi do
    local mid = math.floor((lo + hi) / 2)
    if record(mid) < at then lo = mid + 1 else hi = mid end
  end
  return lo
end

-- write puts a record in the place of number i, or before it.
local function write(i, over, at, er, et)
  local from, piece = HEAD + i * SIZE, struct.pack('<ddd', at, er, et)
  if whole then
    text = string.sub(text, 1, from) .. piece .. string.sub(text, from + 1 + (over and SIZE or 0))
  else
    if not over and i < count then
      piece = piece .. redis.call('GETRANGE', window, from, HEAD + count * SIZE - 1)
    end
    redis.call('SETRANGE', window, from, piece)
    page = ''
  end
  changed = true
end

-- clear forgets all records.
local function clear()
  first, count, r, t, oldest = 0, 0, 0, 0, 0
  text, whole, changed = string.rep('\0', HEAD), true, true
end

-- expire drops records that are a minute old. It needs the time.
local function expire()
  local last = math.max(ra, ta)
  if last > now + 2 * SPAN then
    -- The clock was set back, or another server with another clock has taken over. Records that far in the
    -- future would block the account for as long. A smaller step is left alone: it delays calls by as much.
    ra, ta, told = 0, 0, 0
    clear()
  elseif first == count or oldest + SPAN > now then
    return
  elseif last + SPAN <= now then
    clear()
  else
    changed = true
    while true do
      local at, er, et = record(first)
      oldest = at
      if at + SPAN > now then
        return
      end
      r, t, first = r - er, t - et, first + 1
    end
  end
end

-- add counts a cost at a time, which need not be the latest.
local function add(at, rc, tc)
  if rc == 0 and tc == 0 then
    return
  end
  local i, same, er, et = count, false, 0, 0
  if at <= ra or at <= ta then
    i = find(at)
    if i < count then
      local time, sr, st = record(i)
      if time == at then
        same, er, et = true, sr, st
      end
    end
  end
  if text == '' then
    clear() -- the head of a window that is new
  end
  write(i, same, at, er + rc, et + tc)
  if not same then
    count = count + 1
    if i == first then oldest = at end
  end
  r, t = r + rc, t + tc
  if rc > 0 then ra = math.max(ra, at) end
  if tc > 0 then ta = math.max(ta, at) end
end

-- give returns a cost to the record of a time, unless it no longer counts.
local function give(at, rc, tc)
  if first == count or at < oldest or rc == 0 and tc == 0 then
    return
  end
  local i = find(at)
  if i == count then
    return
  end
  local time, er, et = record(i)
  if time ~= at then
    return
  end
  rc, tc = math.min(rc, er), math.min(tc, et)
  write(i, true, at, er - rc, et - tc)
  r, t = r - rc, t - tc
end

-- keep stores the window. A key that nobody uses goes away by itself.
local function keep()
  if not changed then
    return
  end
  if not whole and first > PAGE and first * 2 > count then
    -- More than half of it no longer counts.
    text = string.rep('\0', HEAD) .. redis.call('GETRANGE', window, HEAD + first * SIZE, HEAD + count * SIZE - 1)
    count, first, whole = count - first, 0, true
  end
  if whole then
    local head = struct.pack('<dddddddd', 0, count - first, r, t, ra, ta, oldest, told)
    redis.call('SET', window, head .. string.sub(text, HEAD + first * SIZE + 1), 'PX', TTL)
  else
    redis.call('SETRANGE', window, 0, struct.pack('<dddddddd', first, count, r, t, ra, ta, oldest, told))
    redis.call('PEXPIRE', window, TTL)
  end
end

-- due reports whether it is time to tidy the slots and to tell them to expire. Doing so at each call would
-- be a sixth of the work.
local function due()
  return now - told > TTL / 4 or told > now
end

-- lease holds a slot for some time. Running is the number of slots before it.
local function lease(id, ms, running)
  redis.call('ZADD', slots, now + ms, id)
  if running == 0 or due() then
    redis.call('PEXPIRE', slots, ms + TTL)
    told = now
  end
end

-- reset returns the milliseconds until a window is empty.
local function reset(sum, last)
  if sum == 0 then
    return 0
  end
  return last + SPAN - now
end

-- standing is the reply about an account, a string of numbers. An account of which nothing was revoked is in epoch 1.
local function standing(code, wait, used, at)
  return struct.pack('<ddddddddd', code, wait, used, at, r, t, reset(r, ra), reset(t, ta), tonumber(redis.call('GET', epoch) or 1))
end
