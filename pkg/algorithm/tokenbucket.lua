local token_bucket = {bucket = true, repair = bucket.repair, decide = bucket.decide, expiry = bucket.expiry}
