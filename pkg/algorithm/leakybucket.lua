local leaky_bucket = {bucket = true, repair = bucket.repair, expiry = bucket.expiry}

function leaky_bucket.decide(l, s, now, hits, how)
	local allowed, before, after, again, expiry, delay, level = bucket.decide(l, s, now, hits, how)
	if allowed and how ~= GIVE_BACK and level > 0 then
		delay = ceil(level / l.drip) * l.tick
	end
	return allowed, before, after, again, expiry, delay
end
