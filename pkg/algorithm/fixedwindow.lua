local fixed_window = {}

-- l.a and l.b are the bounds of the window that holds now. Those of a calendar
-- come with the limit, since scripts know no zones.

function fixed_window.repair(l, now, at, used, aux)
	if used == 0 then return at, used, aux end
	return l.a, used, l.b
end

function fixed_window.decide(l, now, at, used, aux, hits, how)
	if used == 0 or at < l.a then
		at, used, aux = l.a, 0, l.b
	end
	local fits, next = used + hits <= l.capacity, used
	if how == GIVE_BACK then
		next = math.max(0, used - hits)
	elseif fits or how == SPEND then
		next = math.min(used + hits, l.max_used)
	end
	if next == used then return fits end
	return fits, at, next, aux
end

function fixed_window.expiry(l, at, used, aux)
	if used == 0 then return 0 end
	return aux
end

return fixed_window
