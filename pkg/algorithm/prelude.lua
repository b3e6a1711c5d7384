-- Decides a batch of asks atomically: the twin of the Go functions in this
-- folder, file by file and name by name. All numbers are whole and below 2^53.
-- A division is floored or raised at once, which is exact in that range.
--
-- A script starts from nothing at each call, so that what is made for every ask
-- is made of locals and flat tables, and an algorithm only when it is asked for.
--
-- As in Go, each algorithm has three functions. repair(l, s, now) and
-- expiry(l, s) are as there. decide(l, s, now, hits, how) returns whether the
-- hits are allowed, those in use before and after, the instant of the retry
-- (nil: never), the expiry after it, and the delay (nil: none). It changes a
-- state only by charging it, and then marks it dirty.

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local call = redis.call
local MAX_EXACT = 2^52
local TAKE, SPEND, GIVE_BACK = 0, 1, 2
