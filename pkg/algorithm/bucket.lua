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
	if level_of(l, s) == 0 or s.at - now <= l.window_us then return end
	s.at = now
	s.dirty = true
end

local function drain(l, s, now)
	local at = floor(now / l.tick)
	s.used = level_of(l, s)
	if s.used > 0 then
		local seen = ceil(s.at / l.tick)
		local elapsed = at - seen
		if elapsed < 0 then
			at = seen
		elseif elapsed >= ceil(s.used / l.drip) then
			s.used = 0
		else
			s.used = s.used - elapsed * l.drip
		end
	end
	s.at, s.aux = at * l.tick, l.scale
	return at
end

function bucket.decide(l, s, now, hits, how)
	local at = drain(l, s, now)
	local level = s.used
	local before = ceil(level / l.scale)
	local room = floor((l.max_used - level) / l.scale)
	local fits = hits <= l.capacity and level + hits * l.scale <= l.capacity * l.scale
	if how == GIVE_BACK then
		s.used = max(0, level - min(hits, before) * l.scale)
	elseif fits then
		s.used = level + hits * l.scale
	elseif how == SPEND then
		s.used = level + min(hits, room) * l.scale
	end
	s.dirty = s.dirty or s.used ~= level
	local again
	if not fits and how ~= GIVE_BACK and hits <= l.capacity then
		again = (at + ceil((s.used + hits * l.scale - l.capacity * l.scale) / l.drip)) * l.tick
	end
	return verdict(fits, how, hits, before, ceil(s.used / l.scale), again), level
end

function bucket.expiry(l, s)
	local level = level_of(l, s)
	if level == 0 then return 0 end
	return s.at + ceil(level / l.drip) * l.tick
end
