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
	local at, before, aux = s.at, s.used, s.aux
	local begin, finish = bounds(l, now)
	if before == 0 or at < begin then
		at, before, aux = begin, 0, finish
	end
	local fits, used = before + hits <= l.requests, before
	if how == GIVE_BACK then
		used = max(0, before - hits)
	elseif how == SPEND or fits then
		used = min(before + hits, l.max_used)
	end
	if used ~= before then
		s.at, s.used, s.aux, s.dirty = at, used, aux, true
	end
	return fits or how == GIVE_BACK, before, used, aux, used == 0 and 0 or aux
end

function fixed_window.expiry(l, s)
	if s.used == 0 then return 0 end
	return s.aux
end
