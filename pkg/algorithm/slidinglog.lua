local sliding_window_log = {is_log = true}
local call = redis.call
local floor, ceil, min, max = math.floor, math.ceil, math.min, math.max

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
	s.dirty, s.limit = true, l
end

-- decide returns, besides, those in use before and after, the instant of the
-- retry (nil: never), and the expiry.
function sliding_window_log.decide(l, s, now, hits, how)
	local at = max(now, newest(s))
	local before = live(s, at - l.window_us)
	local after = before
	local fits = hits <= l.capacity and before <= l.capacity - hits
	if hits > 0 and how == GIVE_BACK then
		after = before - min(hits, before)
		if after ~= before then
			drop_oldest(s, length(s) - before)
			drop_newest(s, before - after)
			s.dirty, s.limit = true, l
		end
	elseif hits > 0 and (how == SPEND or fits) then
		local pushed = min(hits, l.max_used)
		local keep = min(before, l.max_used - pushed)
		drop_oldest(s, length(s) - keep)
		push(s, at, pushed)
		after = keep + pushed
		s.dirty, s.limit = true, l
	end
	local again
	if not fits and how ~= GIVE_BACK and hits <= l.capacity then
		again = nth(s, 1 + l.capacity - hits) + l.window_us
	end
	return fits, before, after, again, sliding_window_log.expiry(l, s)
end

function sliding_window_log.expiry(l, s)
	if length(s) == 0 then return 0 end
	return newest(s) + l.window_us
end

-- store brings the list in Redis to what a log holds.
local function store(s, now, slack)
	if not s.dirty or s.corrupt then return end
	local expiry = sliding_window_log.expiry(s.limit, s)
	if expiry <= now then
		call("DEL", s.key)
		return
	end
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
	call("PEXPIRE", s.key, ceil((expiry - now) / 1000) + slack)
end

-- load reads a log's length.
function sliding_window_log.load(key)
	local n = redis.pcall("LLEN", key)
	if type(n) == "table" then return {corrupt = true, store = store} end
	return {key = key, n = n, stored = n, first = 0, runs = {}, seen = {}, dirty = false, store = store}
end

local function copy_of(runs)
	local copy = {}
	for i = 1, #runs do copy[i] = {t = runs[i].t, c = runs[i].c} end
	return copy
end

-- copy keeps what restore brings back.
function sliding_window_log.copy(s)
	return {n = s.n, first = s.first, runs = copy_of(s.runs), dirty = s.dirty, limit = s.limit}
end

function sliding_window_log.restore(s, copy)
	s.n, s.first, s.runs, s.dirty, s.limit = copy.n, copy.first, copy_of(copy.runs), copy.dirty, copy.limit
end

return sliding_window_log
