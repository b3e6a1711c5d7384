local sliding_window_counter = {}

function sliding_window_counter.repair(l, s, now)
	if s.used == 0 and s.aux == 0 or s.at - now <= l.window_us then return end
	s.at = now - now % l.window_us
	s.dirty = true
end

local function roll(l, s, now)
	local at, used, aux = s.at, s.used, s.aux
	local begin = now - now % l.window_us
	if used == 0 and aux == 0 or at < begin - l.window_us then
		at, used, aux = begin, 0, 0
	elseif at == begin - l.window_us then
		at, used, aux = begin, 0, used
	end
	return at, min(used, l.max_used), min(aux, l.max_used), floor(max(0, now - at) / l.tick)
end

-- retry: ticks from the beginning of the state's window until hits fit.
local function retry(l, used, aux, hits)
	if used + hits <= l.requests then
		return l.window - floor((l.requests - used - hits) * l.window / aux)
	end
	return l.window + max(0, l.window - floor((l.requests - hits) * l.window / used))
end

local function expiry(l, at, used, aux)
	if used > 0 then return at + 2 * l.window_us end
	if aux > 0 then return at + l.window_us end
	return 0
end

function sliding_window_counter.decide(l, s, now, hits, how)
	local at, rolled_used, rolled_aux, elapsed = roll(l, s, now)
	local carried = rolled_aux * (l.window - elapsed)
	local before = rolled_used + ceil(carried / l.window)
	local fits = rolled_used + hits <= l.requests and carried + (rolled_used + hits) * l.window <= l.requests * l.window
	local used, aux = rolled_used, rolled_aux
	if how == GIVE_BACK then
		local from_current = min(hits, used)
		used = used - from_current
		aux = max(0, aux - (hits - from_current))
	elseif how == SPEND or fits then
		used = min(used + hits, l.max_used)
	end
	local after = used + ceil(aux * (l.window - elapsed) / l.window)
	local again
	if not fits and how ~= GIVE_BACK and hits <= l.requests then
		again = at + retry(l, used, aux, hits) * l.tick
	end
	if used ~= rolled_used or aux ~= rolled_aux then
		s.at, s.used, s.aux, s.dirty = at, used, aux, true
	end
	return fits or how == GIVE_BACK, before, after, again, expiry(l, at, used, aux)
end

function sliding_window_counter.expiry(l, s)
	return expiry(l, s.at, s.used, s.aux)
end
