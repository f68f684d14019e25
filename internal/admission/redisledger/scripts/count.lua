-- count KEYS: units, sums, epoch. ARGV: as in units.lua.
return count(KEYS[1], KEYS[2], KEYS[3], 0)
