-- Decides a batch of asks atomically: the twin of the Go functions in this
-- folder, file by file and name by name. All numbers are whole and below 2^53.
-- A division is floored or raised at once, which is exact in that range.
--
-- A script starts from nothing at each call. So a function is made only when it
-- is needed, what is done for each ask works on flat tables, and what is read or
-- written for each key is so at once.
--
-- Each algorithm has three functions, and says if it is a bucket. repair(l, s, now) and expiry(l, s) are as
-- in Go. decide(l, s, now, hits, how) returns whether the hits are allowed, those
-- in use before and after, the instant of the retry (nil: never), the expiry
-- after it, and the delay (nil: none). It changes a state only by charging it,
-- and then marks it dirty.

-- makers has a function for each algorithm, in the order of their numbers.
local CALENDAR = 128
local FORCED, HELD, JOINED = 32, 64, 128
local UNDECIDED, ALLOWED, DENIED, NEVER, CLOCK = 0, 1, 2, 4, 8

local packed = ARGV[1]
local now, slack, limit_count, log_count, ask_count, pos = struct.unpack("<ddIII", packed)
if now == 0 then
	local t = call("TIME")
	now = t[1] * 1000000 + t[2]
end

-- limits and states are by number. asks holds four values an ask: flags, the
-- numbers of its key and its limit, hits. out holds six: code, before, after,
-- retry, reset, delay; and before them the clock.
local limits, states, asks, out = {}, {}, nil, {[0] = now}

for i = 1, limit_count do
	local kind, requests, capacity, window_us, window, tick, max_used, scale, drip
	kind, requests, capacity, window_us, window, tick, max_used, scale, drip, pos = struct.unpack("<Bdddddddd", packed, pos)
	local calendar = kind >= CALENDAR
	if calendar then kind = kind - CALENDAR end
	local algorithm = makers[kind]
	if type(algorithm) == "function" then
		algorithm = algorithm()
		makers[kind] = algorithm
	end
	limits[i] = {
		kind = kind, bucket = algorithm.bucket, repair = algorithm.repair, decide = algorithm.decide, expiry = algorithm.expiry,
		requests = requests, capacity = capacity, window_us = window_us, window = window, tick = tick,
		max_used = max_used, scale = scale, drip = drip,
		calendar = calendar, begin = scale, finish = drip, outside = calendar and (now < scale or now >= drip),
	}
end

for from = 1, ask_count, MANY do
	local n = min(MANY, ask_count - from + 1)
	local some = {struct.unpack("<" .. string.rep("BIId", n), packed, pos)}
	pos = some[4 * n + 1]
	if not asks then
		asks = some
	else
		for i = 1, 4 * n do asks[4 * (from - 1) + i] = some[i] end
	end
end

-- A state is kept in Redis until the second kept, and slack longer. Within that
-- time a charge need not move the key's expiry.
local STATE, CHARGE, STATE_SIZE = "<I7I7I7I5", "<I7I7I7", 26

-- All keys are read without failing: what another type of value or garbage left
-- is marked corrupt. A key that is not there and one of another type look alike
-- at first.
local is_log = {}
if log_count > 0 then
	for i = 1, ask_count do
		is_log[asks[4 * i - 2]] = limits[asks[4 * i - 1]].kind == SLIDING_WINDOW_LOG
	end
end
local key_count = #KEYS
for from = 1, key_count, MANY do
	local to = min(from + MANY - 1, key_count)
	local values, missing = log_count < limit_count and call("MGET", unpack(KEYS, from, to)) or {}, {}
	for k = from, to do
		local value, key = values[k - from + 1], KEYS[k]
		if is_log[k] then
			states[k] = makers[SLIDING_WINDOW_LOG].load(key)
		elseif not value then
			missing[#missing + 1] = key
			states[k] = {at = 0, used = 0, aux = 0, kept = 0, dirty = false, limit = false, corrupt = false}
		elseif #value ~= STATE_SIZE then
			states[k] = {corrupt = true}
		else
			local at, used, aux, kept = struct.unpack(STATE, value)
			local corrupt = at > 2 * MAX_EXACT or used > 2 * MAX_EXACT or aux > 2 * MAX_EXACT
			states[k] = {at = at, used = used, aux = aux, kept = kept, dirty = false, limit = false, corrupt = corrupt}
		end
	end
	if #missing > 0 and call("EXISTS", unpack(missing)) > 0 then
		for k = from, to do
			if not is_log[k] and not values[k - from + 1] and call("TYPE", KEYS[k]).ok ~= "none" then states[k].corrupt = true end
		end
	end
end

-- decide_one judges one ask by itself and charges its state.
local function decide_one(i)
	local a, o = 4 * i, 6 * i
	local flags, s, l, hits = asks[a - 3], states[asks[a - 2]], limits[asks[a - 1]], asks[a]
	local how = flags % 4
	if how == TAKE and hits > l.capacity then hits = l.capacity + 1 end
	local allowed, before, after, retry, expiry, delay = l.decide(l, s, now, hits, how)
	local code = ALLOWED
	if allowed or flags % (2 * FORCED) >= FORCED then
		retry = 0
	elseif hits > l.capacity then
		code, retry = DENIED + NEVER, l.window_us
	else
		code, retry = DENIED, retry - now
	end
	s.limit = l -- that by which a key was last asked says when it expires
	out[o - 5] = code
	out[o - 4] = before
	out[o - 3] = after
	out[o - 2] = retry
	out[o - 1] = expiry > now and expiry - now or 0
	out[o] = delay or 0
end

-- unfit says why an ask cannot be decided: a corrupt state, or a calendar window
-- that the clock has left.
local function unfit(i)
	local s, l = states[asks[4 * i - 2]], limits[asks[4 * i - 1]]
	if s.corrupt or l.bucket and s.used > 0 and s.aux < 1 then return UNDECIDED end
	if l.outside then return CLOCK end
end

local decide_group
local from = 1
for to = 1, ask_count do
	if to == ask_count or asks[4 * to + 1] < JOINED then
		local why
		for i = from, to do why = why or unfit(i) end
		if not why then
			if from == to and asks[4 * to - 3] % JOINED < HELD then -- nothing else can veto it
				local l = limits[asks[4 * to - 1]]
				l.repair(l, states[asks[4 * to - 2]], now)
				decide_one(to)
			else
				decide_group = decide_group or make_decide_group(now, limits, states, asks, out, log_count, decide_one)
				decide_group(from, to)
			end
			if log_count > 0 then
				for i = from, to do why = why or unfit(i) end
			end
		end
		if why then
			for o = 6 * from - 5, 6 * to do out[o] = 0 end
			for i = from, to do out[6 * i - 5] = why end
		end
		from = to + 1
	end
end

-- The expiry of a bucket moves on with each charge: its key is kept half as long
-- again, so as not to be told each time.
for k = 1, key_count do
	local s, l, key = states[k], states[k].limit, KEYS[k]
	if s.dirty and not s.corrupt then
		local expiry = l.expiry(l, s)
		if expiry <= now then
			call("DEL", key)
		elseif s.runs then
			makers[SLIDING_WINDOW_LOG].store(s)
			call("PEXPIRE", key, ceil((expiry - now) / 1000) + slack)
		elseif expiry <= s.kept * 1000000 then
			call("SETRANGE", key, "0", struct.pack(CHARGE, s.at, s.used, s.aux))
		else
			if l.bucket then expiry = expiry + (expiry - now) / 2 end
			local kept = ceil(expiry / 1000000)
			call("SET", key, struct.pack(STATE, s.at, s.used, s.aux, kept), "PX", ceil(kept * 1000 - now / 1000) + slack)
		end
	end
end

local reply = struct.pack("<d" .. string.rep("Bddddd", min(MANY, ask_count)), unpack(out, 0, 6 * min(MANY, ask_count)))
for i = MANY + 1, ask_count, MANY do
	local n = min(MANY, ask_count - i + 1)
	reply = reply .. struct.pack("<" .. string.rep("Bddddd", n), unpack(out, 6 * i - 5, 6 * (i + n - 1)))
end
return reply
