-- What every script about one account begins with. Its keys are in one hash slot:
--   window  a string of numbers, what the account took in the last minute; see below
--   slots   a sorted set: the calls that are running, by the time at which their lease ends
--   epoch   two numbers: one that changes when a fact about the account is revoked (0: never), and that is
--           negative while the account's keys are marked as switched off; and u of units.lua
-- ARGV[1] is a string of numbers, of which the first is the time in milliseconds; -1: that of this server.
--
-- A string of numbers holds doubles, least byte first, which need no formatting and no parsing. All numbers
-- are whole and below 2^53, so a double holds them exactly.
--
-- The window has a record for each millisecond in which something was taken, in the order of their time:
-- time, requests in thousandths, tokens. A record is at the end of its millisecond and counts until a minute
-- later, as in the ledger in memory. Behind the last record stands a head of 8 numbers, so that a new record
-- and the new head are written at once. Nearly all of the time of a script goes to calls of Redis and to
-- the bytes of strings, so a call reads and writes few and short pieces, however long the window is.
local SPAN, TTL, PAGE = 60000, 120000, 8
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
-- when a call last told the keys to expire.
local first, count, r, t, ra, ta, oldest, told = 0, 0, 0, 0, 0, 0, 0, 0
local changed, fresh = false, false -- the head is to be written; the window is to be written anew
local page, base = '', 0            -- some records, and the number of the first of them
local piece, from                   -- what is to be written, and where

-- read reads the head, and the last n records.
local function read(n)
  local text = redis.call('GETRANGE', window, -HEAD - n * SIZE, -1)
  if text == '' then
    fresh = true
    return
  end
  local records = #text - HEAD
  first, count, r, t, ra, ta, oldest, told = struct.unpack('<dddddddd', text, records + 1)
  if n > 0 then
    page, base = string.sub(text, 1, records), count - records / SIZE
  end
end

-- store writes a piece of the window.
local function store(at, text)
  if fresh then
    redis.call('SET', window, text, 'PX', TTL)
    fresh = false
  else
    redis.call('SETRANGE', window, at, text)
  end
end

local function flush()
  if piece then
    store(from, piece)
    piece = nil
  end
end

-- record returns time, requests and tokens of a record. The number of the first is 0.
local function record(i)
  if i < base or (i - base) * SIZE >= #page then
    flush()
    base = i
    page = redis.call('GETRANGE', window, i * SIZE, math.min(i + PAGE, count) * SIZE - 1)
    PAGE = math.min(PAGE * 2, 512) -- who reads on reads more
  end
  return struct.unpack('<ddd', page, (i - base) * SIZE + 1)
end

-- find returns the number of the first record that is not before a time.
local function find(at)
  local lo, hi = first, count
  if base > lo and page ~= '' and record(base) <= at then
    lo = base
  end
  while lo < hi do
    local mid = math.floor((lo + hi) / 2)
    if record(mid) < at then lo = mid + 1 else hi = mid end
  end
  return lo
end

-- write puts a record in the place of number i, or before it.
local function write(i, over, at, er, et)
  flush()
  from, piece = i * SIZE, struct.pack('<ddd', at, er, et)
  if not over then
    if i < count then
      piece = piece .. redis.call('GETRANGE', window, from, count * SIZE - 1)
    end
    count = count + 1
  end
  page, changed = '', true
end

-- clear forgets all records.
local function clear()
  first, count, r, t = 0, 0, 0, 0
  page, changed, fresh = '', true, true
end

-- expire drops records that are a minute old. It needs the time.
local function expire()
  local last = math.max(ra, ta)
  if last > now + 2 * SPAN then
    -- The clock was set back, or another server with another clock has taken over. Records that far in the
    -- future would block the account for as long. A smaller step is left alone: it delays calls by as much.
    ra, ta = 0, 0
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
  if i == first then oldest = at end
  write(i, same, at, er + rc, et + tc)
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
  if time == at then
    rc, tc = math.min(rc, er), math.min(tc, et)
    write(i, true, at, er - rc, et - tc)
    r, t = r - rc, t - tc
  end
end

-- due reports whether it is time to tidy the slots and to tell the keys to expire. Keys that nobody uses go
-- away by themselves.
local function due()
  return now - told > TTL / 4 or told > now
end

-- lease holds a slot for some time, and tells the slots to expire if asked to.
local function lease(id, ms, tell)
  redis.call('ZADD', slots, now + ms, id)
  if tell then
    redis.call('PEXPIRE', slots, ms + TTL)
  end
end

-- keep stores the window, and tells it to expire if asked to.
local function keep(tell)
  if not changed then
    return
  end
  if first > 64 and first * 2 > count then
    -- More than half of it no longer counts.
    flush()
    from, piece, fresh = 0, redis.call('GETRANGE', window, first * SIZE, count * SIZE - 1), true
    first, count = 0, count - first
  end
  local head, last = struct.pack('<dddddddd', first, count, r, t, ra, ta, oldest, told), count * SIZE
  if piece and from + #piece == last then
    store(from, piece .. head)
  else
    flush()
    store(last, head)
  end
  if tell then
    redis.call('PEXPIRE', window, TTL)
  end
end

-- reset returns the milliseconds until a window is empty.
local function reset(sum, last)
  if sum == 0 then
    return 0
  end
  return last + SPAN - now
end

-- standing is the reply about an account, a string of numbers. An account of which nothing was revoked is in
-- epoch 1.
local function standing(code, wait, used, at)
  local e, u = 0, 0
  local text = redis.call('GET', epoch)
  if text then
    e, u = struct.unpack('<dd', text)
  end
  return struct.pack('<dddddddddd', code, wait, used, at, r, t, reset(r, ra), reset(t, ta), e == 0 and 1 or e, u)
end
