-- decide_group judges and charges the asks of a request of several, or of one
-- that waits for a say from elsewhere or is for a log. It is given what
-- script.lua has: now, limits, runs, states, logs, changed and told. An ask is
-- known by where its run begins.

local function has(flags, flag) return flags % (2 * flag) >= flag end

-- unfit says why an ask cannot be decided: a corrupt state, or a calendar window
-- that the clock has left.
local function unfit(r)
	local l, k = limits[runs[r + 1]], runs[r + 4]
	if l.algorithm.is_log then return logs[k].corrupt and UNDECIDED end
	local at, used, aux = states[4 * k - 3], states[4 * k - 2], states[4 * k - 1]
	if at > HUGE or used > HUGE or aux > HUGE or aux < 1 and used > 0 and l.algorithm.is_bucket then return UNDECIDED end
	return l.outside and CLOCK
end

-- said has what a log's ask is told: whether its hits fit, those in use before
-- and after, the instant of the retry and the expiry.
local said = {}

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
		if flags % JOINED < NO_VETO then
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

-- save brings states back to now that are more than a window ahead of it, and
-- then keeps them.
local function save(from, to)
	for r = from, to, 6 do
		local l, k = limits[runs[r + 1]], runs[r + 4]
		local i, at = 4 * k - 3, 4 * (r - from) / 6 + 1
		if l.algorithm.is_log then
			l.algorithm.repair(l, logs[k], now)
		elseif states[i] > now + l.window_us then
			states[i], states[i + 1], states[i + 2] = l.algorithm.repair(l, now, states[i], states[i + 1], states[i + 2])
			changed[k] = l
		end
		if l.algorithm.is_log then
			saved[at] = l.algorithm.copy(logs[k])
		else
			saved[at], saved[at + 1], saved[at + 2], saved[at + 3] = states[i], states[i + 1], states[i + 2], changed[k] or false
		end
	end
end

local function restore(from, to)
	for r = from, to, 6 do
		local l, k = limits[runs[r + 1]], runs[r + 4]
		local i, at = 4 * k - 3, 4 * (r - from) / 6 + 1
		if l.algorithm.is_log then
			l.algorithm.restore(logs[k], saved[at])
		else
			states[i], states[i + 1], states[i + 2], changed[k] = saved[at], saved[at + 1], saved[at + 2], saved[at + 3]
		end
	end
end

-- settle decides what is left of a request that is not charged: the asks that
-- are alone by themselves, and then how the others' logs stand.
local function settle(from, to)
	restore(from, to)
	for r = from, to, 6 do
		if has(runs[r], ALONE) then decide_one(r) end
	end
	if not logs then return end
	for r = from, to, 6 do
		if said[r] and not has(runs[r], ALONE) then
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

local function decide_group(from, to)
	local why, passed
	for r = from, to, 6 do why = why or unfit(r) end
	if not why then
		save(from, to)
		passed = passes(from, to)
		if not passed then settle(from, to) end
	end
	if not logs then return end
	for r = from, to, 6 do -- a log shows its corrupt entries only when they are met
		if not why and unfit(r) then
			why = UNDECIDED
			restore(from, to)
		end
	end
	tell(from, to, why, passed)
end

return decide_group
