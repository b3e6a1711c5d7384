local token_bucket = {repair = bucket.repair, expiry = bucket.expiry}

function token_bucket.decide(l, s, now, hits, how)
	return (bucket.decide(l, s, now, hits, how))
end
