-- tally adds to the totals of an account or a key in one month, raises them, or only reads them. It is a script of its
-- own (count for an account, quota for a key), and a part of free, because most calls that end have units to add. The
-- key units is a hash, whose values are strings of numbers as in account.lua:
--   g       the time in microseconds at which it was made, which tells it from one that was lost; and u: that
--           time and every thousandth of a unit that was added to any total since. Take returns u, so that a node
--           knows without asking how much it may have missed
--   S       a total in thousandths: units, forgiven, hour, opening, reviewed, raised. Units and forgiven never
--           fall. Hour is when something was last added, opening the units at the beginning of the last 24
--           hours, reviewed when a steep climb was last reported (milliseconds). Raised is what the store knew
--           before Redis did: a node that was away has stored it, and adds it when it is back
--   S/m     hour, and the units at its beginning, for each hour of the last 24 in which something was added
--   S/NODE  what a node has added in its present life, behind the name of that life. A node says how much it has
--           added in all, so what it says twice counts once. Of a key also what it has given back, and how many of its
--           reservations it has given up
-- ARGV, behind the two of free: numbers (g as the node knows it, 0: there is one, -1: make one if there is none;
-- milliseconds that a new hash is kept, and the epoch; 1 to end the mark of the account); node; life; and for each
-- total S, numbers, and S/m for a new one. These numbers are: what the node has added in all (-1: it adds nothing);
-- what of it units include already, unless S/NODE says so; 1 if raised may include some of it; units
-- and forgiven in the store (-1: not known); the units at which the budget is used up, and those within 24 hours
-- that are steep (-1: never).
-- It returns numbers: 1 (0: the node must know more first), g, u, and for each total units before and after without
-- what was forgiven, units of the last 24 hours, and 1 if that is to be reviewed.
-- A total that reaches the budget marks the account: the epoch becomes negative.
--
-- The total of a key is one of which calls reserve units when they begin. It has four more numbers: what the node has
-- given back in all, which is part of forgiven; the units to reserve; the most that may be used with them; and how many
-- reservations the node has given up, because no reply came. A reservation is added to what the node has added, which
-- is without those on their way. One that arrives after the node has given it up, and has said so, is not made. One
-- that arrives before that may have been raised, too, so of a key the node says in place of the 1 how much of what it
-- has added it does not know to be counted. For
-- this total it returns units after, forgiven, what the node has added by S/NODE, and 1 if units were reserved (2: the
-- reservation was given up). It has neither hours nor an epoch. An earlier version counted in the key old.
local function tally(units, epoch, now, old)
  local MOST, HOUR, DAY = 4503599627370496, 3600000, 86400000
  local known, keepUnits, keepEpoch, unmark = struct.unpack('<dddd', ARGV[3])
  local node, life = '/' .. ARGV[4], ARGV[5]

  local function micros()
    local time = redis.call('TIME')
    return time[1] * 1000000 + time[2]
  end

  local fields = { 'g' }
  for i = 6, #ARGV, 3 do
    fields[#fields + 1] = ARGV[i]
    fields[#fields + 1] = ARGV[i] .. node
  end
  local state = redis.call('HMGET', units, unpack(fields))
  local g, u = 0, 0
  if state[1] then
    g, u = struct.unpack('<dd', state[1])
  end

  -- mark changes the epoch and makes it negative, or positive.
  local function mark(sign)
    local old, copy = 0, u
    local text = redis.call('GET', epoch)
    if text then
      old, copy = struct.unpack('<dd', text)
    end
    if sign < 0 or old < 0 then
      local value = math.max(micros(), math.abs(old) + 1)
      redis.call('SET', epoch, struct.pack('<dd', sign * value, math.max(u, copy)), 'PX', keepEpoch)
    end
  end

  if unmark == 1 then
    mark(1)
  end
  if g == 0 and known >= 0 or g ~= 0 and known > 0 and g ~= known then
    return struct.pack('<ddd', 0, g, u)
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
  end

  local marked, renew, added, totals = false, made, 0, ''
  for i = 6, #ARGV, 3 do
    local name, n = ARGV[i], 2 + (i - 6) / 3 * 2
    local all, included, late, stored, pardoned, full, steep = struct.unpack('<ddddddd', ARGV[i + 1])
    local reserves, back, want, most, gone = #ARGV[i + 1] > 56, 0, 0, 0, 0
    if reserves then
      back, want, most, gone = struct.unpack('<dddd', ARGV[i + 1], 57)
    end
    local total, forgiven, last, opening, reviewed, raised = 0, 0, 0, 0, 0, 0
    if state[n] then
      total, forgiven, last, opening, reviewed, raised = struct.unpack('<dddddd', state[n])
    end
    local first, owed, pardon = total, raised, math.max(forgiven, pardoned)
    -- What the store knows, and then what the node adds.
    local text = made and old and redis.call('GET', old)
    if text then
      stored = math.max(stored, (struct.unpack('<d', text)))
    end
    total = math.max(total, stored)
    if not made then
      raised = raised + total - first
    end
    local counted, ok = included, 0
    if all >= 0 then
      local returned, given = 0, 0
      if state[n + 1] and string.sub(state[n + 1], 1, #life) == life then
        counted = struct.unpack('<d', state[n + 1], #life + 1)
        if reserves then
          returned, given = struct.unpack('<dd', state[n + 1], #life + 9)
        end
      end
      local more = math.max(0, all - counted)
      -- A node that makes itself known adds what the store did not have when it looked. Another node may have looked
      -- later and raised the total by it; what this run raises cannot include it.
      if late > 0 or stored >= 0 then
        local paid = math.min(reserves and late or more, known < 0 and owed or raised)
        pardon, more, raised = pardon + math.max(0, paid - more), math.max(0, more - paid), raised - paid
      end
      total, counted = math.min(MOST, total + more), math.max(all, counted)
      local mine = struct.pack('<d', counted)
      if reserves then
        pardon = pardon + math.max(0, back - returned)
        if gone < given then
          ok = 2
        elseif total - pardon + want <= most then
          total, counted, ok = total + want, counted + want, 1
        end
        mine = struct.pack('<ddd', counted, math.max(back, returned), math.max(gone, given))
      end
      if state[n + 1] ~= life .. mine then
        set(fields[n + 1], life .. mine)
      end
    end
    local hour = math.floor(now / HOUR)
    if not reserves and total ~= first and hour > last then
      -- The first addition of an hour. Hours that are a day old no longer count. What a new total begins with was
      -- added earlier, in the hours that the node says.
      local kept, at = '', state[n] and first or math.max(0, stored)
      local hours = redis.call('HGET', units, name .. '/m') or ARGV[i + 2]
      for p = 1, #hours, 16 do
        local h, begin = struct.unpack('<dd', hours, p)
        if h == hour then
          at = begin
        elseif h < hour and h > hour - 24 then
          if kept == '' then opening = begin end
          kept = kept .. struct.pack('<dd', h, begin)
        end
      end
      if kept == '' then opening = at end
      set(name .. '/m', kept .. struct.pack('<dd', hour, at))
      last, renew = hour, true
    end
    if hour - last >= 24 then opening = total end
    local day = math.max(0, total - math.max(opening, pardon))
    local review = 0
    if all >= 0 and steep >= 0 and day >= steep and (reviewed == 0 or now - reviewed >= DAY) then
      reviewed, review = now, 1
    end
    local before, after = math.max(0, first - pardon), math.max(0, total - pardon)
    if full >= 0 and before < full and after >= full then
      marked = true
    end
    if total ~= first or pardon ~= forgiven or raised ~= owed or review == 1 then
      set(name, struct.pack('<dddddd', total, pardon, last, opening, reviewed, raised))
    end
    added = added + total - first
    if reserves then
      totals = totals .. struct.pack('<dddd', after, pardon, counted, ok)
    else
      totals = totals .. struct.pack('<dddd', before, after, day, review)
    end
  end
  if added > 0 or made then
    u = math.min(2 * MOST, u + added)
    set('g', struct.pack('<dd', g, u))
    if epoch then
      redis.call('SETRANGE', epoch, 8, struct.pack('<d', u))
      if renew then
        redis.call('PEXPIRE', epoch, keepEpoch)
      end
    end
  end
  if #changes > 0 then
    redis.call('HSET', units, unpack(changes))
    if made then
      redis.call('PEXPIRE', units, keepUnits)
    end
  end
  if marked then
    mark(-1)
  end
  return struct.pack('<ddd', 1, g, u) .. totals
end
