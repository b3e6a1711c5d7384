-- decide_group judges and charges the asks of a request of several, or of one
-- that waits for a say from elsewhere or is for a log. It is given what
-- script.lua has: now, limits, runs, states, logs, changed and told. An ask is
-- known by where its run begins.

local function has(flags, flag) return flags % (2 * flag) >= flag end

-- said has what a log's ask is told: whether its hits fit, those in use before
-- and after, the instant of the retry and the expiry.
local said = {}

-- over has the asks that did not fit and are charged when the request does not
-- pass.
local over = {}

-- decide_one judges one ask by itself, charges its state, and returns whether its
-- hits fit.
local function decide_one(r)
	local l, hits, k = limits[runs[r + 1]], runs[r + 2], runs[r + 4]
	local how, i = runs[r] % ALONE, 4 * k - 3
	if l.algorithm.is_log then
		said[r] = {l.algorithm.decide(l, logs[k], now, hits, how)}
		return said[r][1]
	end
	local fits, at, used, aux = l.algorithm.decide(l, now, states[i], states[i + 1], states[i + 2], hits, how)
	if at then
		states[i], states[i + 1], states[i + 2], changed[k] = at, used, aux, l
	end
	return fits
end

-- passes decides each ask, and reports whether the request is to be charged.
local function passes(from, to)
	local quotas, fitting, vetoed = 0, 0, false
	for r = from, to, 6 do
		local flags, fits = runs[r], decide_one(r)
		over[r] = not fits and has(flags, OVER)
		if flags % OVER < NO_VETO then
			vetoed = vetoed or not fits
		elseif has(flags, HELD) then
			vetoed = true
		elseif has(flags, QUOTA) and not has(flags, NO_VETO) then
			quotas = quotas + 1
			if fits then fitting = fitting + 1 end
		end
	end
	return not vetoed and (quotas == 0 or fitting > 0)
end

-- saved holds four values an ask: at, used, aux and the limit that changed it. Of
-- a log it holds a copy.
local saved = {}

-- look saves the states. It returns why an ask cannot be decided, and whether one
-- may be more than a window ahead of now.
local function look(from, to)
	local why, ahead, n = nil, false, 0
	for r = from, to, 6 do
		local l, k = limits[runs[r + 1]], runs[r + 4]
		if l.algorithm.is_log then
			why, ahead = why or logs[k].corrupt and UNDECIDED, true
		else
			local i = 4 * k - 3
			local at, used, aux = states[i], states[i + 1], states[i + 2]
			if at > HUGE or used > HUGE or aux > HUGE or aux < 1 and used > 0 and l.algorithm.is_bucket then
				why = why or UNDECIDED
			elseif l.outside then
				why = why or CLOCK
			end
			ahead = ahead or at > now + l.window_us
			saved[n + 1], saved[n + 2], saved[n + 3], saved[n + 4] = at, used, aux, changed[k] or false
		end
		n = n + 4
	end
	return why, ahead
end

-- repair brings states back to now that are more than a window ahead of it, and
-- saves what they are then.
local function repair(from, to)
	local n = 0
	for r = from, to, 6 do
		local l, k = limits[runs[r + 1]], runs[r + 4]
		if l.algorithm.is_log then
			l.algorithm.repair(l, logs[k], now)
			saved[n + 1] = l.algorithm.copy(logs[k])
		else
			local i = 4 * k - 3
			if states[i] > now + l.window_us then
				states[i], states[i + 1], states[i + 2] = l.algorithm.repair(l, now, states[i], states[i + 1], states[i + 2])
				changed[k] = l
			end
			saved[n + 1], saved[n + 2], saved[n + 3], saved[n + 4] = states[i], states[i + 1], states[i + 2], changed[k] or false
		end
		n = n + 4
	end
end

local function restore(from, to)
	local n = 0
	for r = from, to, 6 do
		local l, k = limits[runs[r + 1]], runs[r + 4]
		if l.algorithm.is_log then
			l.algorithm.restore(logs[k], saved[n + 1])
		else
			local i = 4 * k - 3
			states[i], states[i + 1], states[i + 2], changed[k] = saved[n + 1], saved[n + 2], saved[n + 3], saved[n + 4]
		end
		n = n + 4
	end
end

-- settle decides what is left of a request that is not charged: the asks that
-- are alone by themselves, those that are charged for being over, and then how the
-- others' logs stand.
local function settle(from, to)
	restore(from, to)
	for r = from, to, 6 do
		if has(runs[r], ALONE) then
			decide_one(r)
		elseif over[r] then
			local before = said[r]
			decide_one(r)
			if before then said[r][1], said[r][4] = before[1], before[4] end
		end
	end
	if not logs then return end
	for r = from, to, 6 do
		if said[r] and not over[r] and not has(runs[r], ALONE) then
			local l = limits[runs[r + 1]]
			local _, before, after, _, expiry = l.algorithm.decide(l, logs[runs[r + 4]], now, 0, TAKE)
			said[r][2], said[r][3], said[r][5] = before, after, expiry
		end
	end
end

-- tell tells the asks for logs what they need to know.
local function tell(from, to, why, passed)
	for r = from, to, 6 do
		if limits[runs[r + 1]].algorithm.is_log then
			local code, s, n = why, said[r], #told
			if why then
				s = {false, 0, 0, 0, 0}
			else
				code = (s[1] and FITS or FITS_NOT) + (passed and 0 or UNCHARGED)
			end
			told[n + 1], told[n + 2], told[n + 3], told[n + 4], told[n + 5] = code, s[2], s[3], s[4] or 0, s[5]
		end
	end
end

-- met reports whether a log has shown corrupt entries, as it does only when it is
-- looked into.
local function met(from, to)
	for r = from, to, 6 do
		if limits[runs[r + 1]].algorithm.is_log and logs[runs[r + 4]].corrupt then return true end
	end
end

local function decide_group(from, to)
	local why, ahead = look(from, to)
	local passed = true
	if not why and from == to and runs[from] < HELD then -- for a log; nothing else can veto it
		local l, s = limits[runs[from + 1]], logs[runs[from + 4]]
		l.algorithm.repair(l, s, now)
		decide_one(from)
		why = s.corrupt and UNDECIDED
	elseif not why then
		if ahead then repair(from, to) end
		passed = passes(from, to)
		if not passed then settle(from, to) end
		if logs and met(from, to) then
			why = UNDECIDED
			restore(from, to)
		end
	end
	if not logs then return end
	tell(from, to, why, passed)
end

return decide_group
