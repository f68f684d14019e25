-- quota KEYS: units, and where an earlier version counted. ARGV: as in count, of a key's total; it has no hours, and so
-- no need of the time.
return tally(KEYS[1], nil, 0, KEYS[2])
