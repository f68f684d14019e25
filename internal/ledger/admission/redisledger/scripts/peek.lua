-- peek ARGV: clock. It returns what take returns.
clock()
read(0)
expire()
keep()
return standing(0, 0, 0, 0)
