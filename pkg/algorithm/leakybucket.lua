local leaky_bucket = {repair = bucket.repair, expiry = bucket.expiry}

function leaky_bucket.decide(l, s, now, hits, how)
	local d, level = bucket.decide(l, s, now, hits, how)
	if d.allowed and how ~= GIVE_BACK and level > 0 then
		d.delay = ceil(level / l.drip) * l.tick
	end
	return d
end
