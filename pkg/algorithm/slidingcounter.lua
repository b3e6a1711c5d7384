local sliding_window_counter = {}

-- l.a is the beginning of the window that holds now.

function sliding_window_counter.repair(l, now, at, used, aux)
	if used == 0 and aux == 0 then return at, used, aux end
	return l.a, used, aux
end

function sliding_window_counter.decide(l, now, at, used, aux, hits, how)
	local begin, window, max_used = l.a, l.window_us / l.tick, l.max_used
	local last = begin - l.window_us
	if at < last or used == 0 and aux == 0 then
		at, used, aux = begin, 0, 0
	elseif at == last then
		at, used, aux = begin, 0, used
	end
	if used > max_used then used = max_used end
	if aux > max_used then aux = max_used end
	local elapsed = 0
	if now > at then elapsed = (now - at - (now - at) % l.tick) / l.tick end
	local fits = used + hits <= l.capacity and aux * (window - elapsed) + (used + hits) * window <= l.capacity * window
	local next, next_aux = used, aux
	if how == GIVE_BACK then
		next = math.max(0, used - hits)
		next_aux = math.max(0, aux - (hits - (used - next)))
	elseif fits or how == SPEND then
		next = math.min(used + hits, max_used)
	end
	if next == used and next_aux == aux then return fits end
	return fits, at, next, next_aux
end

function sliding_window_counter.expiry(l, at, used, aux)
	if used > 0 then return at + 2 * l.window_us end
	if aux > 0 then return at + l.window_us end
	return 0
end

return sliding_window_counter
