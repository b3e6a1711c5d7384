local token_bucket = {repair = bucket.repair, decide = bucket.decide, expiry = bucket.expiry}
