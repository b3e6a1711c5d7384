-- Decides a batch of asks atomically: the twin of the Go functions in this
-- folder, file by file and name by name. All numbers are whole and below 2^53.
-- A division is floored or raised at once, which is exact in that range.

local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max
local MAX_EXACT = 2^52
local TAKE, SPEND, GIVE_BACK = 0, 1, 2

-- A verdict: allowed, hits in use before and after, instant of the retry (nil:
-- never), delay.
local function verdict(fits, how, hits, before, after, retry, delay)
	return {
		allowed = fits or how == GIVE_BACK, hits = hits, before = before,
		after = after, retry = retry, delay = delay or 0,
	}
end
