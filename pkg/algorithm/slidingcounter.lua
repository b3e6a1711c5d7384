local sliding_window_counter = {}

function sliding_window_counter.repair(l, s, now)
	if s.used == 0 and s.aux == 0 or s.at - now <= l.window_us then return end
	s.at = now - now % l.window_us
	s.dirty = true
end

local function roll(l, s, now)
	local begin = now - now % l.window_us
	if s.used == 0 and s.aux == 0 or s.at < begin - l.window_us then
		s.at, s.used, s.aux = begin, 0, 0
	elseif s.at == begin - l.window_us then
		s.at, s.used, s.aux = begin, 0, s.used
	end
	s.used, s.aux = min(s.used, l.max_used), min(s.aux, l.max_used)
	return floor(max(0, now - s.at) / l.tick)
end

-- retry: ticks from the beginning of the state's window until hits fit.
local function retry(l, s, hits)
	if s.used + hits <= l.requests then
		return l.window - floor((l.requests - s.used - hits) * l.window / s.aux)
	end
	return l.window + max(0, l.window - floor((l.requests - hits) * l.window / s.used))
end

function sliding_window_counter.decide(l, s, now, hits, how)
	local elapsed = roll(l, s, now)
	local carried = s.aux * (l.window - elapsed)
	local before = s.used + ceil(carried / l.window)
	local fits = s.used + hits <= l.requests and carried + (s.used + hits) * l.window <= l.requests * l.window
	local used, aux = s.used, s.aux
	if how == GIVE_BACK then
		local from_current = min(hits, used)
		s.used = used - from_current
		s.aux = max(0, aux - (hits - from_current))
	elseif how == SPEND or fits then
		s.used = min(used + hits, l.max_used)
	end
	s.dirty = s.dirty or s.used ~= used or s.aux ~= aux
	local after = s.used + ceil(s.aux * (l.window - elapsed) / l.window)
	local again
	if not fits and how ~= GIVE_BACK and hits <= l.requests then
		again = s.at + retry(l, s, hits) * l.tick
	end
	return verdict(fits, how, hits, before, after, again)
end

function sliding_window_counter.expiry(l, s)
	if s.used > 0 then return s.at + 2 * l.window_us end
	if s.aux > 0 then return s.at + l.window_us end
	return 0
end
