package compat

// Difference is something of envoyproxy/ratelimit besides a variable, and what
// becomes of it here.
type Difference struct {
	Area string
	What string // what it is, or does there
	Fate Fate
	How  string // what is better, or why it is ignored or refused
}

// Differences returns what is read and answered besides variables, area by area.
func Differences() []Difference {
	var all []Difference
	for _, area := range []struct {
		name string
		rows []Difference
	}{
		{"Policy files", fileDifferences}, {"Requests and matching", requestDifferences}, {"Counting", countingDifferences},
		{"Answers", answerDifferences}, {"Endpoints", endpointDifferences}, {"Metrics", metricDifferences}, {"Start, stop and programs", lifeDifferences},
	} {
		for _, row := range area.rows {
			row.Area = area.name
			all = append(all, row)
		}
	}
	return all
}

var fileDifferences = []Difference{
	{What: "`domain`, `descriptors`, `key`, `value`, `rate_limit`"},
	{What: "`unit`: second, minute, hour, day, week, month of 30 days, year of 365; in any case"},
	{What: "`requests_per_unit`, 0 without it"},
	{What: "`unlimited`, `name`, `shadow_mode`, `quota_mode`, `share_threshold`"},
	{What: "`replaces`: the name of no limit changes nothing", Fate: Better, How: "a warning says so"},
	{What: "`detailed_metric`, `value_to_metric`: the rule's `metadata` is lost", Fate: Better, How: "they change metrics and nothing else"},
	{What: "`metadata`: keys such as `y` below the first level become `true`", Fate: Better, How: "they stay as they are written"},
	{What: "`name`: any text, which Envoy writes into headers as it is", Fate: Better, How: "what is not printable ASCII is sent as %XX"},
	{What: "A known field at a wrong level, a field given twice (the last counts), a second document: nothing is said", Fate: Better, How: "a warning says so"},
	{What: "A rule that a pattern before it hides: nothing is said", Fate: Better, How: "a warning says so"},
	{What: "Errors: the first, without a line", Fate: Better, How: "all of a load, each with file, line, column and what is allowed"},
	{What: "A bad first load: calls fail until a good one; a bad later one: the last good rules stay"},
	{What: "The order of files is by chance at each load", Fate: Better, How: "it is that of their names"},
	{What: "Policy files of any size", Fate: Better, How: "more than 16 MiB in one, or 64 MiB in all, are an error, and the last good rules stay"},
	{What: "Every file is a policy, also half of one, or what an editor leaves; one that cannot be read is skipped", Fate: Better,
		How: "files are taken when they have stopped changing; swap files are left out; one that cannot be read is an error, and the last good rules stay"},
	{What: "A directory that has lost its files lifts all limits", Fate: Better, How: "the last good rules stay; a policy with a domain and no descriptors lifts its limits"},
	{What: "Fields that only ratelimitd has", Fate: Better, How: "they can be used in the same files: [policies.md](policies.md)"},
}

var requestDifferences = []Difference{
	{What: "Exact value, else the first pattern in the file, else the key alone; no way back from a choice; the limit of the last entry only"},
	{What: "`key_value` is compared as one text: (`a_b`, `c`) meets (`a`, `b_c`)", Fate: Better, How: "a key is compared with a key, a value with a value"},
	{What: "A `*` in a key is a pattern", Fate: Better, How: "a pattern stands in the value; a `*` in a key is a `*`"},
	{What: "Values that are not UTF-8 are an error, with which Envoy lets the request pass", Fate: Better, How: "they are counted"},
	{What: "`limit` of a descriptor counts on the counter of the rule", Fate: Better, How: "it has a counter of its own"},
	{What: "`limit` with a unit that has no length ends the process", Fate: Better, How: "it is ignored, and the rule holds"},
	{What: "`hits_addend` from 2^63 on is taken off", Fate: Better, How: "it is a cost like any other"},
	{What: "`is_negative_hits` is ignored", Fate: Better, How: "it gives hits back, never past full"},
	{What: "No domain, no descriptors, no policies yet: the code Unknown", Fate: Better, How: "InvalidArgument, InvalidArgument and Unavailable, with the same texts"},
	{What: "Redis does not answer: the code Unknown, and charges may be made later", Fate: Better, How: "Unavailable or DeadlineExceeded; [reliability.md](reliability.md) says what is charged"},
	{What: "Requests of any size and number of descriptors", Fate: Better, How: "16 MiB and 512; what is larger is denied"},
}

var countingDifferences = []Difference{
	{What: "Each descriptor is charged by itself, denied or not; a cost that crosses the limit is charged in full"},
	{What: "A look with 0 hits: OK at a full counter; it makes a key", Fate: Better, How: "it makes none"},
	{What: "Windows begin at multiples of their length since 1970, by the clock of each replica", Fate: Better, How: "by the clock of Redis; with memcached, which has none to ask, by that of each replica"},
	{What: "Counter keys are joined by `_`: different descriptors, and limits of different units, may share one", Fate: Better, How: "no two counters share a key"},
	{What: "Keys in Redis and memcached", Fate: Better, How: "they have another form, so counts do not carry over: [migrating.md](migrating.md)"},
	{What: "INCRBY and EXPIRE, not together; a key of another type fails the whole request and charges half of it", Fate: Better, How: "one script, all or nothing for each request; a corrupt key fails its own requests"},
	{What: "Memcached is read at once and charged afterwards: parallel calls pass a limit, and so does all that goes wrong", Fate: Better, How: "what was read is charged only if it is still so, and else decided anew"},
	{What: "A limit whose number changes keeps its count, one whose unit changes begins anew"},
	{What: "Quota mode, for a rule and for all"},
	{What: "Shadow mode, for a rule and for all"},
}

var answerDifferences = []Difference{
	{What: "One status for each descriptor, in order: `code`, `current_limit`, `limit_remaining`, `duration_until_reset`"},
	{What: "Headers: of the last limit that denies, else of the first with least remaining"},
	{What: "Dynamic metadata: `domain`, `descriptors`, `hitsAddend`, `metadata`"},
	{What: "Merging metadata changes the rules for good", Fate: Better, How: "rules never change"},
	{What: "`limit` in metadata: a text that may change", Fate: Better, How: "always `requests_per_unit:2 unit:HOUR`"},
}

var endpointDifferences = []Difference{
	{What: "gRPC: `RateLimitService/ShouldRateLimit`, health for `ratelimit` and for no name"},
	{What: "`/json` and `/healthcheck` take any method", Fate: Better, How: "POST, and GET or HEAD; others are answered 405"},
	{What: "`/json`: 400 and `Bad Request` for whatever is wrong", Fate: Better, How: "400 with what is wrong with the request, 503 where Redis does not answer"},
	{What: "Health: bad until Redis has answered once and a control plane has sent its first state, and from SIGTERM on; a bad policy file or a Redis that goes away changes nothing"},
	{What: "`/healthcheck`: 200 and `OK`, or 500", Fate: Better, How: "503 with the reason in place of 500"},
	{What: "The debug port: `/` and unknown paths list its pages; `/debug/pprof/`"},
	{What: "`/rlconfig` on it: in an order that changes", Fate: Better, How: "sorted; `/rules`, `/rules.json`, `/status` and more besides: [operations.md](operations.md#admin-pages)"},
	{What: "`/stats` on it: command line and memory, no metrics", Fate: Better, How: "the command line without values of flags, of which each could be a secret; metrics are on `/metrics`"},
	{What: "Ports are shared with another process that listens there", Fate: Better, How: "a port or a unix socket that is taken stops the start, with its name; the debug port too, without which the program goes on there"},
}

var metricDifferences = []Difference{
	{What: "`ratelimit.service.rate_limit.<domain>.<keys>.{total_hits, within_limit, near_limit, over_limit, over_limit_with_local_cache, shadow_mode}`"},
	{What: "`ratelimit.service.rate_limit.<domain>.domain_not_found`, `ratelimit.service.call.should_rate_limit.*`, `ratelimit.service.{config_load_success, config_load_error, global_shadow_mode}`"},
	{What: "`ratelimit.go.*`: `sys` is 0", Fate: Better, How: "it is what the process has from the system"},
	{What: "`ratelimit.redis_pool.{cx_active, cx_total, cx_local_close}`, `ratelimit.redis_per_second_pool.*`: opened at the start, as many as the pool holds", Fate: Better, How: "opened as they are needed"},
	{What: "`ratelimit.memcache.{multiget, increment, add}` with a tag `code`, `ratelimit.memcache.{keys_requested, keys_found}`", Fate: Better, How: "`increment` is a counter that was there and is written: `miss`, if others were quicker, and it is decided anew"},
	{What: "`ratelimit.localcache.{hitCount, missCount, lookupCount, entryCount, expiredCount, overwriteCount}`: a key that is over is held for a unit of time, whatever a request costs", Fate: Better, How: "for a second at most, and for costs that are not lower than the one refused"},
	{What: "`ratelimit.localcache.evacuateCount`: what made room for something else", Fate: Better, How: "what found no room, and so was not remembered"},
	{What: "`ratelimit.localcache.averageAccessTime`", Fate: Ignored, How: "sent, and always 0: nothing keeps when something was last looked up"},
	{What: "`runtime.{load_attempts, load_failures, num_values}`, without a control plane: all files, and those that cannot be read", Fate: Better, How: "policy files, and loads in which one could not be read"},
	{What: "`certs.{load_attempts, load_failures, num_values}`: events in the directory of gRPC's certificate, and all files there", Fate: Better, How: "changes of the files in use, those that were bad, and the number of these files"},
	{What: "`reserved_tag`: three to five for each of `EXTRA_TAGS` with a name such as `host` or `region`", Fate: Better, How: "how many of them there are"},
	{What: "`ratelimit_server.<Method>.{total_requests, response_time}` of `ShouldRateLimit`, `Check` and `List`", Fate: Better, How: "requests to `/json` count too; times are a sample of 100 for each interval, with its rate; Prometheus' histogram counts all"},
	{What: "Hits that are granted and not taken count as `within_limit`", Fate: Better, How: "as `total_hits` alone: another limit of their request refused"},
	{What: "Prometheus: names, labels and buckets of the built-in mapping, and mapping files of statsd_exporter, with `timer_type`, `buckets` and `quantiles` as older files have them"},
	{What: "Prometheus: `over_limit_with_local_cache` of nested keys is part of `over_limit`", Fate: Better, How: "it is a counter of its own"},
	{What: "Prometheus: counters of Redis, of loads and of what the process does appear when they first count", Fate: Better, How: "they are there from 0 on"},
	{What: "Prometheus: `statsd_exporter_*`, about its own work", Fate: Ignored, How: "nothing goes that way; ratelimitd's own metrics are shown there"},
	{What: "Prometheus: its port has `/debug/pprof/` and `/debug/vars` too, for everybody", Fate: Better, How: "metrics alone; the former is on the debug port"},
	{What: "Prometheus: `EXTRA_TAGS` are part of names, so that the mapping misses them", Fate: Better, How: "they are labels"},
	{What: "Names that requests choose are kept for ever, however many there are", Fate: Better, How: "1000 for each rule and 10,000 in all, 1500 with Prometheus, which reads all of them at once; further ones are counted together"},
	{What: "Spans hold the whole request and its answer", Fate: Better, How: "what was decided and by which limit, and no values: [tracing.md](tracing.md)"},
	{What: "ratelimitd's own metrics", Fate: Better, How: "`/metrics` on the HTTP and the debug port: [operations.md](operations.md)"},
}

var lifeDifferences = []Difference{
	{What: "No port is open before Redis and policies are there", Fate: Better, How: "all ports open at once; `/healthcheck` says when it is ready"},
	{What: "SIGTERM while it waits for policies or Redis is lost, or ends in a panic", Fate: Better, How: "it ends the process, at any moment"},
	{What: "SIGHUP ends the process", Fate: Better, How: "it reads the policies at once"},
	{What: "A variable that is set to nothing: a panic for numbers, switches and durations", Fate: Better, How: "as one that is not set"},
	{What: "Wrong values: the first, as a panic", Fate: Better, How: "all at once, each with what is allowed"},
	{What: "Environment and policies are checked by a start alone", Fate: Better, How: "`ratelimitd check --compat` checks them and starts nothing: [migrating.md](migrating.md#before)"},
	{What: "`ratelimit`: arguments change nothing, `--help` starts it too", Fate: Better, How: "`--help` is answered"},
	{What: "`ratelimit_config_check`: files below the directory are an error", Fate: Better, How: "they are checked too, and warnings are shown"},
	{What: "`ratelimit_config_check`: needs a server's environment", Fate: Better, How: "it needs none"},
	{What: "`ratelimit_client`"},
	{What: "`ratelimit_client -oltp-protocol`: it sends spans of its own", Fate: Ignored, How: "it sends none; those of the server are enough"},
}
