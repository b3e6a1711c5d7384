local sliding_window_log = {}

-- A log stays in Redis as a list, oldest first, and is looked into where
-- needed. Of the stored entries those from first (counted from 0) up to n are
-- still in it; behind them come runs of c entries at the instant t. What was
-- looked up is kept in seen.

local function length(s)
	local total = s.n - s.first
	for i = 1, #s.runs do total = total + s.runs[i].c end
	return total
end

-- nth: the instant of the i-th newest entry.
local function nth(s, i)
	for r = #s.runs, 1, -1 do
		local run = s.runs[r]
		if i <= run.c then return run.t end
		i = i - run.c
	end
	local index = s.n - i
	local t = s.seen[index]
	if t then return t end
	t = tonumber((call("LINDEX", s.key, index)))
	if not t or t < 0 or t ~= floor(t) or t > 2 * MAX_EXACT then
		s.corrupt = true
		t = 0
	end
	s.seen[index] = t
	return t
end

-- live: how many of the newest entries are later than cutoff. Most often all
-- but a few are, so that the search begins at the oldest, in growing steps.
local function live(s, cutoff)
	local high, step = length(s), 1
	if high == 0 or nth(s, high) > cutoff then return high end
	local low = high
	while low > 0 and nth(s, low) <= cutoff do
		low, high, step = low - step, low - 1, 2 * step
	end
	low = max(low, 0)
	while low < high do
		local middle = ceil((low + high) / 2)
		if nth(s, middle) > cutoff then low = middle else high = middle - 1 end
	end
	return low
end

local function drop_oldest(s, k)
	local stored = min(k, s.n - s.first)
	s.first, k = s.first + stored, k - stored
	while k > 0 do
		local run = s.runs[1]
		local c = min(k, run.c)
		run.c, k = run.c - c, k - c
		if run.c == 0 then table.remove(s.runs, 1) end
	end
end

local function drop_newest(s, k)
	while k > 0 and #s.runs > 0 do
		local run = s.runs[#s.runs]
		local c = min(k, run.c)
		run.c, k = run.c - c, k - c
		if run.c == 0 then table.remove(s.runs) end
	end
	s.n = s.n - k
end

local function push(s, t, c)
	local run = s.runs[#s.runs]
	if run and run.t == t then
		run.c = run.c + c
	elseif c > 0 then
		s.runs[#s.runs + 1] = {t = t, c = c}
	end
end

local function newest(s)
	if length(s) == 0 then return 0 end
	return nth(s, 1)
end

function sliding_window_log.repair(l, s, now)
	if newest(s) - now <= l.window_us then return end
	local ahead = live(s, now)
	drop_newest(s, ahead)
	push(s, now, ahead)
	s.dirty = true
end

function sliding_window_log.decide(l, s, now, hits, how)
	local at = max(now, newest(s))
	local before = live(s, at - l.window_us)
	local after = before
	local fits = hits <= l.requests and before <= l.requests - hits
	if hits > 0 and how == GIVE_BACK then
		after = before - min(hits, before)
		if after ~= before then
			drop_oldest(s, length(s) - before)
			drop_newest(s, before - after)
			s.dirty = true
		end
	elseif hits > 0 and (how == SPEND or fits) then
		local pushed = min(hits, l.max_used)
		local keep = min(before, l.max_used - pushed)
		drop_oldest(s, length(s) - keep)
		push(s, at, pushed)
		after = keep + pushed
		s.dirty = true
	end
	local again
	if not fits and how ~= GIVE_BACK and hits <= l.requests then
		again = nth(s, 1 + l.requests - hits) + l.window_us
	end
	return fits or how == GIVE_BACK, before, after, again, sliding_window_log.expiry(l, s)
end

function sliding_window_log.expiry(l, s)
	if length(s) == 0 then return 0 end
	return newest(s) + l.window_us
end

-- load reads a log's length.
function sliding_window_log.load(key)
	local n = redis.pcall("LLEN", key)
	if type(n) == "table" then return {corrupt = true} end
	return {key = key, n = n, stored = n, first = 0, runs = {}, seen = {}, dirty = false}
end

-- store brings the list in Redis to what a log holds.
function sliding_window_log.store(s)
	if s.n == s.first then
		if s.stored > 0 then call("DEL", s.key) end
	elseif s.first > 0 or s.n < s.stored then
		call("LTRIM", s.key, s.first, s.n - 1)
	end
	for i = 1, #s.runs do
		local t, left = string.format("%.0f", s.runs[i].t), s.runs[i].c
		while left > 0 do
			local some = {}
			for j = 1, min(left, MANY) do some[j] = t end
			call("RPUSH", s.key, unpack(some))
			left = left - #some
		end
	end
end
