-- post ARGV: the numbers are the clock and the lease; then a string with time, requests and tokens of each
-- record, in the order of time, and the ids of slots.
-- A node that counted on its own for a while tells here what it admitted and what is still running.
local _, ms = struct.unpack('<dd', ARGV[1])
clock()
read(0)
expire()
for i = 3, #ARGV do
  lease(ARGV[i], ms, i == #ARGV)
end

-- Other nodes have told of the same minute, so most records go between others. What is behind the first of them is
-- read and written once: moved for each record, a minute of a few nodes is gigabytes.
local start            -- the number of the first record that is written
local behind, p = '', 1 -- the records from there on, and the first of them that is not in out yet
local out = {}

-- ahead moves p to the first record that is not before a time. Most often that is one of the next.
local function ahead(at)
  local lo, step = p, SIZE
  while lo + step <= #behind and struct.unpack('<d', behind, lo + step) < at do
    lo, step = lo + step, step * 2
  end
  local hi = math.min(lo + step, #behind + 1)
  while lo < hi do
    local mid = lo + math.floor((hi - lo) / SIZE / 2) * SIZE
    if struct.unpack('<d', behind, mid) < at then lo = mid + SIZE else hi = mid end
  end
  p = lo
end

local last, er, et = 0, 0, 0
local function put()
  if last > 0 then
    out[#out + 1] = struct.pack('<ddd', last, er, et)
  end
end

for i = 1, #ARGV[2], SIZE do
  local at, rc, tc = struct.unpack('<ddd', ARGV[2], i)
  at = math.min(at, now + 1) -- the node's clock may be ahead of this one
  if at + SPAN > now then
    if not start then
      start = find(at)
      if start < count then
        behind = redis.call('GETRANGE', window, start * SIZE, count * SIZE - 1)
      end
    end
    if at > last then
      put()
      local begin = p
      ahead(at)
      out[#out + 1] = string.sub(behind, begin, p - 1)
      last, er, et = at, 0, 0
      if p < #behind then
        local time, sr, st = struct.unpack('<ddd', behind, p)
        if time == at then
          er, et, p = sr, st, p + SIZE
        end
      end
    end
    er, et, r, t = er + rc, et + tc, r + rc, t + tc
    if rc > 0 then ra = math.max(ra, at) end
    if tc > 0 then ta = math.max(ta, at) end
  end
end
if start then
  put()
  out[#out + 1] = string.sub(behind, p)
  from, piece = start * SIZE, table.concat(out)
  if start == first then
    oldest = struct.unpack('<d', piece)
  end
  count, page, changed = start + #piece / SIZE, '', true
end
keep(true)
return 0
