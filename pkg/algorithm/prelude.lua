local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local call = redis.call
local MAX_EXACT = 2^52
local TAKE, SPEND, GIVE_BACK = 0, 1, 2

-- A C function takes and returns only so many values at once.
local MANY = 1000
