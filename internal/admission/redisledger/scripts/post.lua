-- post ARGV: clock, lease, the number of slots and their ids, then time, requests and tokens of each entry.
-- A node that counted on its own for a while tells here what it admitted and what is still running.
local first = 4 + tonumber(ARGV[3])
for i = 4, first - 1 do
  lease(ARGV[i], tonumber(ARGV[2]))
end
for i = first, #ARGV, 3 do
  local at = math.min(tonumber(ARGV[i]), now + 1) -- the node's clock may be ahead of this one
  if at + SPAN > now then
    add(at, tonumber(ARGV[i + 1]), tonumber(ARGV[i + 2]))
  end
end
keep()
return 0
