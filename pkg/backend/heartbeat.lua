-- Notes that a member is there, or has left, and returns how many there are.
-- KEYS[1] holds 24 bytes a member: its id, and when it was last heard of, in
-- microseconds by Redis' clock. ARGV: the id, 1 to be there or 0 to leave, and
-- after how many milliseconds without a word a member is gone.
local id, there, patience = ARGV[1], ARGV[2] == "1", tonumber(ARGV[3])
local time = redis.call("TIME")
local now = time[1] * 1000000 + time[2]
local members = {}
local known = redis.call("MGET", KEYS[1])[1] or ""
for at = 1, #known - 23, 24 do
	local other, heard = struct.unpack("<c16d", known, at)
	-- Also one that was heard of in a future that never came.
	if other ~= id and math.abs(now - heard) <= patience * 1000 then members[#members + 1] = known:sub(at, at + 23) end
end
if there then members[#members + 1] = struct.pack("<c16d", id, now) end
if #members == 0 then
	redis.call("DEL", KEYS[1])
else
	redis.call("SET", KEYS[1], table.concat(members), "PX", patience)
end
return #members
