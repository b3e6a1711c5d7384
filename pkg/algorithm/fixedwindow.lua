local fixed_window = {}

-- bounds: of a calendar they come with the limit, since scripts know no zones.
local function bounds(l, now)
	if l.calendar then return l.begin, l.finish end
	local begin = now - now % l.window_us
	return begin, begin + l.window_us
end

function fixed_window.repair(l, s, now)
	if s.used == 0 or s.at - now <= l.window_us then return end
	s.at, s.aux = bounds(l, now)
	s.dirty = true
end

function fixed_window.decide(l, s, now, hits, how)
	local begin, finish = bounds(l, now)
	if s.used == 0 or s.at < begin then
		s.at, s.used, s.aux = begin, 0, finish
	end
	local before = s.used
	local fits = before + hits <= l.requests
	if how == GIVE_BACK then
		s.used = max(0, before - hits)
	elseif how == SPEND or fits then
		s.used = min(before + hits, l.max_used)
	end
	s.dirty = s.dirty or s.used ~= before
	return verdict(fits, how, hits, before, s.used, s.aux)
end

function fixed_window.expiry(l, s)
	if s.used == 0 then return 0 end
	return s.aux
end
