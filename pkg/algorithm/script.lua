-- Decides a batch of asks atomically: the twin of the Go functions in this
-- folder, file by file and name by name. All numbers are whole and below 2^53.
-- A division is floored or raised at once, which is exact in that range.
--
-- It charges, and replies what the states were before: with those Go knows what
-- each ask is to be told. Of a log, which stays in Redis, it replies that.
--
-- A script starts from nothing at each call, and to have a function take hold of
-- a local costs more than a decision. So a function is made only when it is
-- needed and gets what it needs as arguments, what is the same for many asks is
-- told once, and what is read for each key is so at once.
--
-- Each algorithm has three functions. repair(l, now, at, used, aux) returns a
-- state that is more than a window ahead brought back to now. decide(l, now, at,
-- used, aux, hits, how) returns whether the hits fit and, when it charges them,
-- the state after that. expiry(l, at, used, aux) is as in Go.

local call, pack, parse = redis.call, struct.pack, struct.unpack
local keys, packed = KEYS, ARGV[1]
local now, slack, limit_count, log_count, run_count, pos = parse("<ddIII", packed)
if now == 0 then
	local t = call("TIME")
	now = t[1] * 1000000 + t[2]
end

local limits, algorithms = {}, {}
for i = 1, limit_count do
	local kind, capacity, window_us, tick, max_used, a, b
	kind, capacity, window_us, tick, max_used, a, b, pos = parse("<Bdddddd", packed, pos)
	local outside = false
	if kind >= CALENDAR then
		kind, outside = kind - CALENDAR, now < a or now >= b
	elseif a == 0 then
		a = now - now % window_us
		b = a + window_us
	end
	local algorithm = algorithms[kind]
	if not algorithm then
		algorithm = make(kind)
		algorithms[kind] = algorithm
	end
	limits[i] = {
		algorithm = algorithm, outside = outside,
		capacity = capacity, window_us = window_us, tick = tick, max_used = max_used, a = a, b = b,
	}
end

-- runs holds six values a run: flags, the number of its limit, hits, count, and
-- the numbers of the first and the last of its keys. Each of these is asked for
-- count times. An ask that is not alone in its request is a run by itself.
local runs = {}
for from = 1, run_count, MANY do
	local n = math.min(MANY, run_count - from + 1)
	local some = {parse("<" .. string.rep("HIdIII", n), packed, pos)}
	pos = some[6 * n + 1]
	if from == 1 then
		runs = some
	else
		for i = 1, 6 * n do runs[6 * (from - 1) + i] = some[i] end
	end
end

local key_count, other_keys, logs = #keys, #keys, nil
if log_count > 0 then
	logs = {}
	for r = 1, 6 * run_count, 6 do
		local l, k = limits[runs[r + 1]], runs[r + 4]
		if l.algorithm.is_log and not logs[k] then
			logs[k] = l.algorithm.load(keys[k])
			other_keys = other_keys - 1
		end
	end
end

-- states holds four values a key: at, used, aux, and the second until which it
-- is kept in Redis; and slack longer. Within that time a charge need not move the
-- key's expiry. All keys are read without failing: what another type of value or
-- garbage left is replaced by a state that cannot be. A key that is not there and
-- one of another type look alike at first.
local states, raw = nil, {}
for from = 1, key_count, MANY do
	local to = math.min(from + MANY - 1, key_count)
	local values, missing, absent = other_keys > 0 and call("MGET", unpack(keys, from, to)) or {}, nil, nil
	for i = 1, to - from + 1 do
		local value = values[i]
		if not value then
			values[i] = NEVER_SEEN
			if not (logs and logs[from + i - 1]) then
				absent, missing = absent or {}, missing or {}
				absent[#absent + 1] = i
				missing[#absent] = keys[from + i - 1]
			end
		elseif #value ~= STATE_SIZE then
			values[i] = CORRUPT
		end
	end
	if absent and call("EXISTS", unpack(missing)) > 0 then
		for j = 1, #absent do
			if call("TYPE", missing[j]).ok ~= "none" then values[absent[j]] = CORRUPT end
		end
	end
	local some = table.concat(values)
	raw[#raw + 1] = some
	some = {parse("<" .. string.rep("I7I7I7I5", #values), some)}
	if from == 1 then
		states = some
	else
		for i = 1, 4 * #values do states[4 * (from - 1) + i] = some[i] end
	end
end

-- changed has the limit by which a key was last charged, which says when it
-- expires.
local changed, told, next, decide_group = {}, {}, {}, nil
local r, last = 1, 6 * run_count
while r < last do
	local from, l = r, limits[runs[r + 1]]
	repeat r = r + 6 until r > last or runs[r] < JOINED
	if r > from + 6 or runs[from] >= HELD or l.algorithm.is_log then
		local all_fit, n = runs[from] == PLAIN, 0
		for q = from, all_fit and r - 6 or 0, 6 do
			local l, i = limits[runs[q + 1]], 4 * runs[q + 4] - 3
			local at, used, aux = states[i], states[i + 1], states[i + 2]
			local fits, next_at, next_used, next_aux = l.algorithm.decide(l, now, at, used, aux, runs[q + 2], TAKE)
			if not fits or at > now + l.window_us or used > HUGE or aux > HUGE or aux < 1 and used > 0 and l.algorithm.is_bucket or l.outside then
				all_fit = false
				break
			end
			next[n + 1], next[n + 2], next[n + 3], next[n + 4] = i, next_at, next_used, next_aux
			n = n + 4
		end
		if all_fit then -- as most do
			for m = 1, n, 4 do
				if next[m + 1] then
					local i = next[m]
					states[i], states[i + 1], states[i + 2] = next[m + 1], next[m + 2], next[m + 3]
					changed[(i + 3) / 4] = limits[runs[from + 6 * (m - 1) / 4 + 1]]
				end
			end
		else
			decide_group = decide_group or make_decide_group(now, limits, runs, states, logs, changed, told)
			decide_group(from, r - 6)
		end
	elseif not l.outside then -- nothing else can veto them
		local how, hits, count = runs[from], runs[from + 2], runs[from + 3]
		local decide, ahead = l.algorithm.decide, now + l.window_us
		local all = count * hits
		for k = runs[from + 4], runs[from + 5] do
			local i = 4 * k - 3
			local at, used, aux = states[i], states[i + 1], states[i + 2]
			if not (at > HUGE or used > HUGE or aux > HUGE or aux < 1 and used > 0 and l.algorithm.is_bucket) then
				if at > ahead then
					at, used, aux = l.algorithm.repair(l, now, at, used, aux)
					states[i], states[i + 1], states[i + 2], changed[k] = at, used, aux, l
				end
				local fits, next_at, next_used, next_aux = decide(l, now, at, used, aux, all, how)
				if next_at then
					states[i], states[i + 1], states[i + 2], changed[k] = next_at, next_used, next_aux, l
				elseif count > 1 and not fits then -- not all together: so many as fit
					for _ = 1, count do
						fits, next_at, next_used, next_aux = decide(l, now, at, used, aux, hits, how)
						if not next_at then break end
						at, used, aux = next_at, next_used, next_aux
						states[i], states[i + 1], states[i + 2], changed[k] = at, used, aux, l
					end
				end
			end
		end
	end
end

-- The expiry of a bucket moves on with each charge: its key is kept half as long
-- again, so as not to be told each time.
for k = 1, key_count do
	local l = changed[k]
	if l then
		local i = 4 * k - 3
		local at, used, aux, kept = states[i], states[i + 1], states[i + 2], states[i + 3]
		local expiry = l.algorithm.expiry(l, at, used, aux)
		if expiry <= now then
			call("DEL", keys[k])
		elseif expiry <= kept * 1000000 then
			call("SETRANGE", keys[k], "0", pack("<I7I7I7", at, used, aux))
		else
			if l.algorithm.is_bucket then expiry = expiry + (expiry - now) / 2 end
			kept = math.ceil(expiry / 1000000)
			call("SET", keys[k], pack("<I7I7I7I5", at, used, aux, kept), "PX", math.ceil(kept * 1000 - now / 1000) + slack)
		end
	end
end
if logs then
	for _, s in pairs(logs) do s.store(s, now, slack) end
end

local reply = pack("<d", now) .. table.concat(raw)
for from = 1, #told, 5 * MANY do
	local n = math.min(MANY, (#told - from + 1) / 5)
	reply = reply .. pack("<" .. string.rep("Bdddd", n), unpack(told, from, from + 5 * n - 1))
end
return reply
