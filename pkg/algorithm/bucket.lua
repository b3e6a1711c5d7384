local bucket = {is_bucket = true}

-- l.a is the scale, l.b the drip.

local function rescale(level, from, to)
	local whole = math.floor(level / from)
	local part = level - whole * from
	if whole >= math.floor(MAX_EXACT / to) then return MAX_EXACT end
	return whole * to + math.min(to, math.ceil(part / from * to))
end

local function level_of(l, used, aux)
	if used > 0 and aux ~= l.a then used = rescale(used, aux, l.a) end
	if used > l.max_used then return l.max_used end
	return used
end

function bucket.repair(l, now, at, used, aux)
	if level_of(l, used, aux) == 0 then return at, used, aux end
	return now, used, aux
end

function bucket.decide(l, now, at, used, aux, hits, how)
	local scale, capacity, tick = l.a, l.capacity, l.tick
	local level, seen = level_of(l, used, aux), at + -at % tick
	at = now - now % tick
	if level > 0 then
		local drained = (at - seen) / tick * l.b
		if drained < 0 then
			at = seen
		elseif drained >= level then
			level = 0
		else
			level = level - drained
		end
	end
	local fits, next = hits <= capacity and level + hits * scale <= capacity * scale, level
	if how == GIVE_BACK then
		next = math.max(0, level - math.min(hits, math.ceil(level / scale)) * scale)
	elseif fits then
		next = level + hits * scale
	elseif how == SPEND then
		next = level + math.min(hits, math.floor((l.max_used - level) / scale)) * scale
	end
	if next == level then return fits end
	return fits, at, next, scale
end

function bucket.expiry(l, at, used, aux)
	local level = level_of(l, used, aux)
	if level == 0 then return 0 end
	return at + (level + -level % l.b) / l.b * l.tick
end

return bucket
