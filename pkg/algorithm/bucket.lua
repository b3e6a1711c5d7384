local bucket = {}

local function rescale(level, from, to)
	local whole = floor(level / from)
	local part = level - whole * from
	if whole >= floor(MAX_EXACT / to) then return MAX_EXACT end
	return whole * to + min(to, ceil(part / from * to))
end

local function level_of(l, s)
	local level = s.used
	if level > 0 and s.aux ~= l.scale then level = rescale(level, s.aux, l.scale) end
	return min(level, l.max_used)
end

function bucket.repair(l, s, now)
	if s.at - now <= l.window_us or level_of(l, s) == 0 then return end
	s.at = now
	s.dirty = true
end

local function drain(l, s, now)
	local at, level = floor(now / l.tick), level_of(l, s)
	if level == 0 then return 0, at end
	local seen = ceil(s.at / l.tick)
	local elapsed = at - seen
	if elapsed < 0 then return level, seen end
	if elapsed >= ceil(level / l.drip) then return 0, at end
	return level - elapsed * l.drip, at
end

local function expiry(l, at, level)
	if level == 0 then return 0 end
	return at + ceil(level / l.drip) * l.tick
end

-- decide also returns the level that the hits found.
function bucket.decide(l, s, now, hits, how)
	local level, at = drain(l, s, now)
	local used, before = level, ceil(level / l.scale)
	local fits = hits <= l.capacity and level + hits * l.scale <= l.capacity * l.scale
	if how == GIVE_BACK then
		used = max(0, level - min(hits, before) * l.scale)
	elseif fits then
		used = level + hits * l.scale
	elseif how == SPEND then
		local room = floor((l.max_used - level) / l.scale)
		used = level + min(hits, room) * l.scale
	end
	local again
	if not fits and how ~= GIVE_BACK and hits <= l.capacity then
		again = (at + ceil((used + hits * l.scale - l.capacity * l.scale) / l.drip)) * l.tick
	end
	at = at * l.tick
	if used ~= level then
		s.at, s.used, s.aux, s.dirty = at, used, l.scale, true
	end
	return fits or how == GIVE_BACK, before, ceil(used / l.scale), again, expiry(l, at, used), nil, level
end

function bucket.expiry(l, s)
	return expiry(l, s.at, level_of(l, s))
end
