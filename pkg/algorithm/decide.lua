-- decide_group judges and charges the asks from one to another of a request of
-- several. It is given what script.lua has: now, limits, states, asks, out,
-- log_count and decide_one.

local ALLOWED, SHADOW_OR_MORE, NO_VETO, QUOTA, HELD, JOINED = 1, 4, 8, 16, 64, 128

local function has(flags, flag) return flags % (2 * flag) >= flag end

local function passes(from, to)
	local quotas, fitting = 0, 0
	for i = from, to do
		local flags, allowed = asks[4 * i - 3], out[6 * i - 5] == ALLOWED
		if flags % JOINED < NO_VETO then
			if not allowed then return false end
		elseif has(flags, HELD) then
			return false
		elseif has(flags, QUOTA) and not has(flags, NO_VETO) then
			quotas = quotas + 1
			if allowed then fitting = fitting + 1 end
		end
	end
	return quotas == 0 or fitting > 0
end

-- as_it_stands keeps the verdict of a request that was not charged.
local function as_it_stands(i)
	local a, o = 4 * i, 6 * i
	local l = limits[asks[a - 1]]
	local _, before, after, _, expiry, delay = l.decide(l, states[asks[a - 2]], now, 0, TAKE)
	out[o - 4], out[o - 3] = before, after
	out[o - 1] = max(0, expiry - now)
	out[o] = out[o - 5] == ALLOWED and delay or 0
end

local function copy_of(runs)
	local copy = {}
	for i = 1, #runs do copy[i] = {t = runs[i].t, c = runs[i].c} end
	return copy
end

-- saved holds four values an ask: at, used, aux and dirty, or of a log what it
-- takes instead.
local saved = {}

local function save(from, to)
	for i = from, to do
		local s, at = states[asks[4 * i - 2]], 4 * (i - from)
		if s.runs then
			saved[at + 1], saved[at + 2], saved[at + 3] = s.n, s.first, copy_of(s.runs)
		else
			saved[at + 1], saved[at + 2], saved[at + 3] = s.at, s.used, s.aux
		end
		saved[at + 4] = s.dirty
	end
end

local function restore(from, to)
	for i = from, to do
		local s, at = states[asks[4 * i - 2]], 4 * (i - from)
		if s.runs then
			s.n, s.first, s.runs = saved[at + 1], saved[at + 2], copy_of(saved[at + 3])
		else
			s.at, s.used, s.aux = saved[at + 1], saved[at + 2], saved[at + 3]
		end
		s.dirty = saved[at + 4]
	end
end

local function decide_group(from, to)
	for i = from, to do
		local l = limits[asks[4 * i - 1]]
		l.repair(l, states[asks[4 * i - 2]], now)
	end
	save(from, to)
	for i = from, to do decide_one(i) end
	if not passes(from, to) then
		restore(from, to)
		for i = from, to do
			if has(asks[4 * i - 3], SHADOW_OR_MORE) then decide_one(i) end
		end
		for i = from, to do
			if not has(asks[4 * i - 3], SHADOW_OR_MORE) then as_it_stands(i) end
		end
	end
	if log_count == 0 then return end
	for i = from, to do -- a log shows its corrupt entries only when they are met
		if states[asks[4 * i - 2]].corrupt then return restore(from, to) end
	end
end
