local makers = {make_fixed_window, make_sliding_window_log, make_sliding_window_counter, make_token_bucket, make_leaky_bucket}
local SLIDING_WINDOW_LOG, TOKEN_BUCKET, CALENDAR = 2, 4, 128
local SHADOW_OR_MORE, NO_VETO, QUOTA, FORCED, JOINED = 4, 8, 16, 32, 64
local UNDECIDED, ALLOWED, DENIED, NEVER, CLOCK = 0, 1, 2, 4, 8

-- A C function takes and returns only so many values at once.
local MANY = 1000

local packed = ARGV[1]
local now, slack, limit_count, log_count, ask_count, pos = struct.unpack("<ddIII", packed)
if now == 0 then
	local t = call("TIME")
	now = t[1] * 1000000 + t[2]
end

-- limits and states are by number. asks holds four values an ask: flags, the
-- numbers of its key and its limit, hits. out holds six: code, before, after,
-- retry, reset, delay.
local limits, states, asks, out = {}, {}, {}, {}

local function read_limits()
	local algorithms = {}
	for i = 1, limit_count do
		local kind, requests, capacity, window_us, window, tick, max_used, scale, drip
		kind, requests, capacity, window_us, window, tick, max_used, scale, drip, pos = struct.unpack("<Bdddddddd", packed, pos)
		local calendar = kind >= CALENDAR
		if calendar then kind = kind - CALENDAR end
		local algorithm = algorithms[kind]
		if not algorithm then
			algorithm = makers[kind]()
			algorithms[kind] = algorithm
		end
		limits[i] = {
			kind = kind, algorithm = algorithm, repair = algorithm.repair, decide = algorithm.decide,
			requests = requests, capacity = capacity, window_us = window_us, window = window, tick = tick,
			max_used = max_used, scale = scale, drip = drip,
			calendar = calendar, begin = scale, finish = drip, outside = calendar and (now < scale or now >= drip),
		}
	end
end

local function read_asks()
	for from = 1, ask_count, MANY do
		local n = min(MANY, ask_count - from + 1)
		local some = {struct.unpack("<" .. string.rep("BIId", n), packed, pos)}
		pos = some[4 * n + 1]
		if from == 1 then
			asks = some
		else
			for i = 1, 4 * n do asks[4 * (from - 1) + i] = some[i] end
		end
	end
end

-- A state is kept in Redis until the second kept, and slack longer. Within that
-- time a charge need not move the key's expiry.
local STATE, CHARGE, STATE_SIZE = "<I7I7I7I5", "<I7I7I7", 26

local function decode(key, value)
	if #value ~= STATE_SIZE then return {corrupt = true} end
	local at, used, aux, kept = struct.unpack(STATE, value)
	local corrupt = at > 2 * MAX_EXACT or used > 2 * MAX_EXACT or aux > 2 * MAX_EXACT
	return {at = at, used = used, aux = aux, kept = kept, key = key, corrupt = corrupt, dirty = false, limit = false}
end

-- load reads keys without failing: what another type of value or garbage left
-- is marked corrupt. numbers are those of the keys.
local function load(keys, numbers)
	local values = call("MGET", unpack(keys))
	local missing = {}
	for i = 1, #keys do
		local value = values[i]
		if value then
			states[numbers[i]] = decode(keys[i], value)
		else -- there is none, or it is of another type
			missing[#missing + 1] = keys[i]
			states[numbers[i]] = {at = 0, used = 0, aux = 0, kept = 0, key = keys[i], corrupt = false, dirty = false, limit = false}
		end
	end
	if #missing > 0 and call("EXISTS", unpack(missing)) > 0 then
		for i = 1, #keys do
			if not values[i] and call("TYPE", keys[i]).ok ~= "none" then states[numbers[i]].corrupt = true end
		end
	end
end

local function load_log(key, number)
	local n = redis.pcall("LLEN", key)
	if type(n) == "table" then
		states[number] = {corrupt = true}
	else
		states[number] = {key = key, n = n, stored = n, first = 0, runs = {}, seen = {}}
	end
end

local function load_all()
	local is_log = {}
	if log_count > 0 then
		for i = 1, ask_count do
			is_log[asks[4 * i - 2]] = limits[asks[4 * i - 1]].kind == SLIDING_WINDOW_LOG
		end
	end
	local keys, numbers = {}, {}
	for number = 1, #KEYS do
		if is_log[number] then
			load_log(KEYS[number], number)
		else
			keys[#keys + 1], numbers[#numbers + 1] = KEYS[number], number
		end
		if #keys == MANY or number == #KEYS and #keys > 0 then
			load(keys, numbers)
			keys, numbers = {}, {}
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
	s.limit = l
	out[o - 5] = code
	out[o - 4] = before
	out[o - 3] = after
	out[o - 2] = retry
	out[o - 1] = expiry > now and expiry - now or 0
	out[o] = delay or 0
end

-- as_it_stands keeps the verdict of a request that was not charged.
local function as_it_stands(i)
	local a, o = 4 * i, 6 * i
	local l = limits[asks[a - 1]]
	local _, before, after, _, expiry, delay = l.decide(l, states[asks[a - 2]], now, 0, TAKE)
	out[o - 4], out[o - 3] = before, after
	out[o - 1] = max(0, expiry - now)
	out[o] = out[o - 5] == ALLOWED and delay or 0
end

local function has(flags, flag) return flags % (2 * flag) >= flag end

local function passes(from, to)
	local quotas, fitting = 0, 0
	for i = from, to do
		local flags, allowed = asks[4 * i - 3], out[6 * i - 5] == ALLOWED
		if has(flags, NO_VETO) then
			-- neither counts nor vetoes
		elseif has(flags, QUOTA) then
			quotas = quotas + 1
			if allowed then fitting = fitting + 1 end
		elseif not allowed then
			return false
		end
	end
	return quotas == 0 or fitting > 0
end

local function copy_of(runs)
	if not runs then return nil end
	local copy = {}
	for i = 1, #runs do copy[i] = {t = runs[i].t, c = runs[i].c} end
	return copy
end

local function save(from, to)
	local saved = {}
	for i = from, to do
		local s = states[asks[4 * i - 2]]
		saved[i] = {at = s.at, used = s.used, aux = s.aux, n = s.n, first = s.first, runs = copy_of(s.runs), dirty = s.dirty}
	end
	return saved
end

local function restore(saved, from, to)
	for i = from, to do
		local s, was = states[asks[4 * i - 2]], saved[i]
		s.at, s.used, s.aux, s.n, s.first, s.runs, s.dirty = was.at, was.used, was.aux, was.n, was.first, copy_of(was.runs), was.dirty
	end
end

-- unfit says why a request cannot be decided: a corrupt state, or a calendar
-- window that the clock has left.
local function unfit(from, to)
	for i = from, to do
		local s, l = states[asks[4 * i - 2]], limits[asks[4 * i - 1]]
		if s.corrupt or l.kind >= TOKEN_BUCKET and s.used > 0 and s.aux < 1 then return UNDECIDED end
		if l.outside then return CLOCK end
	end
end

local function refuse(why, from, to)
	for o = 6 * from - 5, 6 * to do out[o] = 0 end
	for i = from, to do out[6 * i - 5] = why end
end

local function decide_group(from, to)
	local why = unfit(from, to)
	if why then return refuse(why, from, to) end
	for i = from, to do
		local l = limits[asks[4 * i - 1]]
		l.repair(l, states[asks[4 * i - 2]], now)
	end
	if from == to then
		decide_one(from) -- nothing else can veto it
	else
		local saved = save(from, to)
		for i = from, to do decide_one(i) end
		if not passes(from, to) then
			restore(saved, from, to)
			for i = from, to do
				if has(asks[4 * i - 3], SHADOW_OR_MORE) then decide_one(i) end
			end
			for i = from, to do
				if not has(asks[4 * i - 3], SHADOW_OR_MORE) then as_it_stands(i) end
			end
		end
		if log_count > 0 and unfit(from, to) then restore(saved, from, to) end
	end
	why = log_count > 0 and unfit(from, to) -- a log shows its corrupt entries only when they are met
	if why then refuse(why, from, to) end
end

local function store_log(s)
	if s.n == s.first then
		if s.stored > 0 then call("DEL", s.key) end
	elseif s.first > 0 or s.n < s.stored then
		call("LTRIM", s.key, s.first, s.n - 1)
	end
	for i = 1, #s.runs do
		local t, left = string.format("%.0f", s.runs[i].t), s.runs[i].c
		while left > 0 do
			local chunk = {}
			for j = 1, min(left, MANY) do chunk[j] = t end
			call("RPUSH", s.key, unpack(chunk))
			left = left - #chunk
		end
	end
end

-- store writes a state. The expiry of a bucket moves on with each charge: its
-- key is kept half as long again, so as not to be told each time.
local function store(s)
	local l = s.limit
	local expiry = l.algorithm.expiry(l, s)
	if expiry <= now then
		call("DEL", s.key)
	elseif s.runs then
		store_log(s)
		call("PEXPIRE", s.key, ceil((expiry - now) / 1000) + slack)
	elseif expiry <= s.kept * 1000000 then
		call("SETRANGE", s.key, "0", struct.pack(CHARGE, s.at, s.used, s.aux))
	else
		local more = l.kind >= TOKEN_BUCKET and (expiry - now) / 2 or 0
		local kept = ceil((expiry + more) / 1000000)
		call("SET", s.key, struct.pack(STATE, s.at, s.used, s.aux, kept), "PX", ceil(kept * 1000 - now / 1000) + slack)
	end
end

read_limits()
read_asks()
load_all()
local from = 1
for i = 1, ask_count do
	if i == ask_count or asks[4 * i + 1] < JOINED then
		decide_group(from, i)
		from = i + 1
	end
end
for i = 1, #states do
	local s = states[i]
	if s.dirty and not s.corrupt then store(s) end
end
local reply = {struct.pack("<d", now)}
for i = 1, ask_count, MANY do
	local n = min(MANY, ask_count - i + 1)
	reply[#reply + 1] = struct.pack("<" .. string.rep("Bddddd", n), unpack(out, 6 * i - 5, 6 * (i + n - 1)))
end
return table.concat(reply)
