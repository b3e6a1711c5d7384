local algorithms = {fixed_window, sliding_window_log, sliding_window_counter, token_bucket, leaky_bucket}
local SHADOW_OR_MORE, NO_VETO, QUOTA, FORCED, FIRST = 4, 8, 16, 32, 64
local UNDECIDED, ALLOWED, DENIED, NEVER, CLOCK = 0, 1, 2, 4, 8

local packed = ARGV[1]
local now, slack, limit_count, ask_count, pos = struct.unpack("<ddI4I4", packed)
if now == 0 then
	local t = redis.call("TIME")
	now = t[1] * 1000000 + t[2]
end

local limits, asks, states, out = {}, {}, {}, {}

local function read_limits()
	for i = 1, limit_count do
		local l = {}
		local kind
		kind, l.requests, l.capacity, l.window_us, l.window, l.tick, l.max_used, l.scale, l.drip, pos =
			struct.unpack("<Bdddddddd", packed, pos)
		if kind >= 128 then
			kind, l.calendar, l.begin, l.finish = kind - 128, true, l.scale, l.drip
		end
		l.kind, l.algorithm = kind, algorithms[kind]
		limits[i] = l
	end
end

local function read_asks()
	for i = 1, ask_count do
		local flags, key, limit, hits
		flags, key, limit, hits, pos = struct.unpack("<BI4I4d", packed, pos)
		local a = {key = key, l = limits[limit], hits = hits, how = flags % 4}
		a.alone = floor(flags / SHADOW_OR_MORE) % 2 == 1
		a.no_veto = floor(flags / NO_VETO) % 2 == 1
		a.quota = floor(flags / QUOTA) % 2 == 1
		a.forced = floor(flags / FORCED) % 2 == 1
		a.first = flags >= FIRST
		asks[i] = a
	end
end

local function whole(x) return x >= 0 and x == floor(x) and x <= 2 * MAX_EXACT end

-- load reads a state without failing: what another type of value or garbage
-- left is marked corrupt.
local function load(key, l)
	if l.algorithm == sliding_window_log then
		local n = redis.pcall("LLEN", key)
		if type(n) == "table" then return {corrupt = true} end
		return {key = key, n = n, stored = n, first = 0, runs = {}}
	end
	local v = redis.pcall("GET", key)
	if not v then return {at = 0, used = 0, aux = 0} end
	if type(v) == "table" or #v ~= 24 then return {corrupt = true} end
	local at, used, aux = struct.unpack("<ddd", v)
	local scaled = l.kind < 4 or used == 0 or aux >= 1
	return {at = at, used = used, aux = aux, corrupt = not (whole(at) and whole(used) and whole(aux) and scaled)}
end

local function copy(s)
	if not s.runs then return {at = s.at, used = s.used, aux = s.aux, dirty = s.dirty, corrupt = s.corrupt} end
	local runs = {}
	for i = 1, #s.runs do runs[i] = {t = s.runs[i].t, c = s.runs[i].c} end
	return {key = s.key, n = s.n, stored = s.stored, first = s.first, runs = runs, dirty = s.dirty, corrupt = s.corrupt}
end

-- decide_one judges one ask by itself and charges its state. One that is not
-- charged stays as it was, so that a look cannot move a key on in time.
local function decide_one(a)
	local l, hits = a.l, a.hits
	if a.how == TAKE then hits = min(hits, l.capacity + 1) end
	local s = states[a.key]
	local at, used, aux, dirty = s.at, s.used, s.aux, s.dirty
	s.dirty = false
	local d = l.algorithm.decide(l, s, now, hits, a.how)
	if a.forced then d.allowed = true end
	d.reset = max(0, l.algorithm.expiry(l, s) - now)
	if not s.dirty then
		s.at, s.used, s.aux, s.dirty = at, used, aux, dirty
	end
	return d
end

-- as_it_stands keeps the verdict of a request that was not charged.
local function as_it_stands(a, d)
	local s = copy(states[a.key])
	local look = a.l.algorithm.decide(a.l, s, now, 0, TAKE)
	d.before, d.after, d.delay = look.before, look.after, d.allowed and look.delay or 0
	d.reset = max(0, a.l.algorithm.expiry(a.l, s) - now)
	states[a.key].corrupt = s.corrupt
end

local function passes(from, to)
	local quotas, fitting = 0, 0
	for i = from, to do
		local a = asks[i]
		if a.no_veto then
			-- neither counts nor vetoes
		elseif a.quota then
			quotas = quotas + 1
			if out[i].allowed then fitting = fitting + 1 end
		elseif not out[i].allowed then
			return false
		end
	end
	return quotas == 0 or fitting > 0
end

local function restore(saved, from, to)
	for i = from, to do states[asks[i].key] = saved[asks[i].key] end
end

local function save(from, to)
	local saved = {}
	for i = from, to do
		local key = asks[i].key
		if not saved[key] then saved[key] = copy(states[key]) end
	end
	return saved
end

-- unfit says why a request cannot be decided: a corrupt state, or a calendar
-- window that the clock has left.
local function unfit(from, to)
	for i = from, to do
		local l = asks[i].l
		if states[asks[i].key].corrupt then return UNDECIDED end
		if l.calendar and (now < l.begin or now >= l.finish) then return CLOCK end
	end
end

local function decide_group(from, to)
	local why = unfit(from, to)
	if not why then
		local untouched = save(from, to)
		for i = from, to do asks[i].l.algorithm.repair(asks[i].l, states[asks[i].key], now) end
		local saved = save(from, to)
		for i = from, to do out[i] = decide_one(asks[i]) end
		if not passes(from, to) then
			restore(saved, from, to)
			for i = from, to do
				if asks[i].alone then out[i] = decide_one(asks[i]) end
			end
			for i = from, to do
				if not asks[i].alone then as_it_stands(asks[i], out[i]) end
			end
		end
		why = unfit(from, to) -- a log shows its corrupt entries only when they are met
		if why then
			for key, s in pairs(untouched) do s.corrupt = states[key].corrupt end
			restore(untouched, from, to)
		end
	end
	if why then
		for i = from, to do out[i] = {undecided = why} end
	end
end

local function store_log(s)
	if s.n == s.first then
		if s.stored > 0 then redis.call("DEL", s.key) end
	elseif s.first > 0 or s.n < s.stored then
		redis.call("LTRIM", s.key, s.first, s.n - 1)
	end
	for i = 1, #s.runs do
		local t, left = string.format("%.0f", s.runs[i].t), s.runs[i].c
		while left > 0 do
			local chunk = {}
			for j = 1, min(left, 1000) do chunk[j] = t end
			redis.call("RPUSH", s.key, unpack(chunk))
			left = left - #chunk
		end
	end
end

local function store(key, l, s)
	local expiry = l.algorithm.expiry(l, s)
	local ttl = ceil((expiry - now) / 1000) + slack
	if expiry <= now then
		redis.call("DEL", key)
	elseif s.runs then
		store_log(s)
		redis.call("PEXPIRE", key, string.format("%.0f", ttl))
	else
		redis.call("SET", key, struct.pack("<ddd", s.at, s.used, s.aux), "PX", string.format("%.0f", ttl))
	end
end

local function encode(a, d)
	if d.undecided then return struct.pack("<Bddddd", d.undecided, 0, 0, 0, 0, 0) end
	local code, retry = ALLOWED, 0
	if not d.allowed then
		code = DENIED
		if d.hits > a.l.capacity then
			code, retry = DENIED + NEVER, a.l.window_us
		else
			retry = d.retry - now
		end
	end
	return struct.pack("<Bddddd", code, d.before, d.after, retry, d.reset, d.delay)
end

read_limits()
read_asks()
for i = 1, ask_count do
	local a = asks[i]
	if not states[a.key] then states[a.key] = load(KEYS[a.key], a.l) end
end
local from = 1
for i = 1, ask_count do
	if i == ask_count or asks[i + 1].first then
		decide_group(from, i)
		from = i + 1
	end
end
local last = {} -- the limit that a key was last asked with says when it expires
for i = 1, ask_count do last[asks[i].key] = asks[i].l end
for key, l in pairs(last) do
	local s = states[key]
	if s.dirty and not s.corrupt then store(KEYS[key], l, s) end
end
local reply = {struct.pack("<d", now)}
for i = 1, ask_count do reply[i + 1] = encode(asks[i], out[i]) end
return table.concat(reply)
