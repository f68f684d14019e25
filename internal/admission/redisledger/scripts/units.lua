-- count adds to the totals of an account in one month, raises them, or only reads them. It is a script of its own
-- with the keys units, sums and epoch (count), and a part of free, because most calls that end have units to add. Units is
-- a hash:
--   g      the time in microseconds at which it was made; tells it from one that was lost
--   u      g, and every thousandth of a unit that was added to any total since. Take returns it, so that a
--          node knows without asking how much it may have missed
--   S      a total, "units:forgiven:hour:opening:reviewed:raised" in thousandths. Units and forgiven never fall.
--          Hour is when something was last added, opening the units at the beginning of the last 24 hours,
--          reviewed when a steep climb was last reported (milliseconds). Raised is what the store knew before
--          Redis did: a node that was away has stored it, and adds it when it is back
--   S/m    the units at the beginning of each hour in which something was added, "hour=units,...": 24 hours
--   S/NODE what a node has added in its present life, "life:units". A node says how much it has added in all,
--          so what it says twice counts once
-- ARGV: clock (always the first one), and behind o others: what the node knows: g, '*' (there is a hash: read it or add to it), or '+' (make one if there is
-- none); node; life; milliseconds that a new hash is kept; milliseconds that the epoch is kept; '-' to end the
-- mark of the account; then for each total: S, the units that this node has added in all ('': it adds nothing), those of them that units include already (for '+'; else 'late' if raised may
-- include some), units and forgiven in the
-- store ('': not known), the units at which the budget is used up and those within 24 hours that are steep
-- (-1: never), and S/m for a new total.
-- It returns 1 (0: the node must know more first), g, u, and for each total: units before and after without what
-- was forgiven, units of the last 24 hours, 1 if that is to be reviewed.
-- A total that reaches the budget marks the account: the epoch becomes negative.
-- It also returns u as text, for sums.
local function count(units, epoch, o, now)
  local MOST, HOUR, DAY = 4503599627370496, 3600000, 86400000
  local function micros()
    local clock = redis.call('TIME')
    return clock[1] * 1000000 + clock[2]
  end
  local hour = math.floor(now / HOUR)
  local known, life = ARGV[o + 2], ARGV[o + 4]

  -- mark changes the epoch and makes it negative, or positive.
  local function mark(sign)
    local old = tonumber(redis.call('GET', epoch) or 0)
    local value = math.max(micros(), math.abs(old) + 1)
    redis.call('SET', epoch, string.format('%.0f', sign * value), 'PX', ARGV[o + 6])
  end

  if ARGV[o + 7] == '-' and tonumber(redis.call('GET', epoch) or 0) < 0 then
    mark(1)
  end

  local fields = { 'g', 'u' }
  for i = o + 8, #ARGV, 8 do
    fields[#fields + 1] = ARGV[i]
    fields[#fields + 1] = ARGV[i] .. '/' .. ARGV[o + 3]
  end
  local state = redis.call('HMGET', units, unpack(fields))
  local g, u = tonumber(state[1] or 0), tonumber(state[2] or 0)
  if g == 0 and known ~= '+' or g ~= 0 and known ~= '+' and known ~= '*' and g ~= tonumber(known) then
    return { 0, g, u }
  end

  local changes = {}
  local function set(field, value)
    changes[#changes + 1] = field
    changes[#changes + 1] = value
  end
  local made = g == 0
  if made then
    g = micros()
    u = g
    set('g', string.format('%.0f', g))
  end

  local marked = false
  local totals = {}
  local added = 0
  for i = o + 8, #ARGV, 8 do
    local name, all, included = ARGV[i], tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]) or 0
    local n = 3 + (i - o - 8) / 4
    local total, forgiven, last, opening, reviewed, raised = 0, 0, 0, 0, 0, 0
    if state[n] then
      local a, b, c, d, e, f = string.match(state[n], '^(%d+):(%d+):(%d+):(-?%d+):(%d+):(%d+)$')
      total, forgiven, last, opening, reviewed, raised = tonumber(a), tonumber(b), tonumber(c), tonumber(d), tonumber(e), tonumber(f)
    end
    local first, owed = total, raised
    -- What the store knows, and then what the node adds.
    total = math.max(total, tonumber(ARGV[i + 3]) or 0)
    if state[n] then raised = raised + total - first end
    local pardon = math.max(forgiven, tonumber(ARGV[i + 4]) or 0)
    if all then
      local whose, before = string.match(state[n + 1] or '', '^([^:]*):(%d+)$')
      before = whose == life and tonumber(before) or included
      local more = math.max(0, all - before)
      if known ~= '+' and (ARGV[i + 2] == 'late' or ARGV[i + 3] ~= '') then
        local paid = math.min(more, raised)
        more, raised = more - paid, raised - paid
      end
      total = math.min(MOST, total + more)
      if whose ~= life or all > before then
        set(fields[n + 1], life .. ':' .. string.format('%.0f', math.max(all, before)))
      end
    end
    if total ~= first and hour > last then
      -- The first addition of an hour. Hours that are a day old no longer count. What a new total begins with was
      -- added earlier, in the hours that the node says.
      local kept, at = {}, state[n] and first or tonumber(ARGV[i + 3]) or 0
      for h, begin in string.gmatch(redis.call('HGET', units, name .. '/m') or ARGV[i + 7], '(%d+)=(-?%d+)') do
        if tonumber(h) == hour then
          at = tonumber(begin)
        elseif tonumber(h) < hour and tonumber(h) > hour - 24 then
          if #kept == 0 then opening = tonumber(begin) end
          kept[#kept + 1] = h .. '=' .. begin
        end
      end
      if #kept == 0 then opening = at end
      kept[#kept + 1] = string.format('%.0f=%.0f', hour, at)
      set(name .. '/m', table.concat(kept, ','))
      last = hour
    end
    if hour - last >= 24 then opening = total end
    local day = math.max(0, total - math.max(opening, pardon))
    local full, steep = tonumber(ARGV[i + 5]), tonumber(ARGV[i + 6])
    local review = 0
    if all and steep >= 0 and day >= steep and (reviewed == 0 or now - reviewed >= DAY) then
      reviewed, review = now, 1
    end
    local before, after = math.max(0, first - pardon), math.max(0, total - pardon)
    if full >= 0 and before < full and after >= full then
      marked = true
    end
    if total ~= first or pardon ~= forgiven or raised ~= owed or review == 1 then
      set(name, string.format('%.0f:%.0f:%.0f:%.0f:%.0f:%.0f', total, pardon, last, opening, reviewed, raised))
    end
    added = added + total - first
    totals[#totals + 1] = before
    totals[#totals + 1] = after
    totals[#totals + 1] = day
    totals[#totals + 1] = review
  end
  if added > 0 or made then
    u = math.min(2 * MOST, u + added)
    set('u', string.format('%.0f', u))
  end
  if #changes > 0 then
    redis.call('HSET', units, unpack(changes))
    if made then
      redis.call('PEXPIRE', units, ARGV[o + 5])
    end
  end
  if marked then
    mark(-1)
  end
  return { 1, g, u, unpack(totals) }, string.format('%.0f', u)
end
