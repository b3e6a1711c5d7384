// Package descriptors finds the limits and counter keys of a descriptor.
//
// [Compile] turns policy files into immutable [Rules]. A request then takes
// three steps, none of which allocates: [Rules.Domain] finds the domain,
// [Domain.Match] the rule of one descriptor, and [Limit.AppendKey] writes the
// counter key of each of the rule's limits.
//
// # Matching
//
// A descriptor is a list of entries. They are compared in order with the tree
// of the domain, one level per entry, key with key and value with value. At
// each level one node is chosen among those with the entry's key:
//
//  1. the node whose value is the entry's value,
//  2. the most specific pattern that matches the value, where the domain
//     counts precisely, or the first in file order, where it counts as
//     envoyproxy/ratelimit does,
//  3. the node without a value.
//
// The rule is that of the node which the last entry chose. A choice is final:
// where it leads nowhere, the descriptor has no rule, and no other node of an
// upper level is tried. This is how envoyproxy/ratelimit chooses, and a file
// means the same here.
//
// A value with a * is a pattern. Each * stands for any bytes, also none. Of two
// patterns the more specific has more bytes beside the *; then the longer text
// before its first *; then fewer *; then the smaller text, byte by byte. A * in
// a key is no pattern.
//
// # Policy files
//
// A file is YAML, of one or more documents, each about one domain. A file of
// envoyproxy/ratelimit is one. A domain may be spread over documents and files
// that do not contradict one another.
//
//	# every field, though not all of them go together
//	domain: edge              # as Envoy's configuration names it
//	counting: precise         # or reference: as envoyproxy/ratelimit counts
//	defaults:                 # for the limits of this document, and for the
//	  algorithm: fixed_window #   overrides that requests of the domain bring
//	  on_store_error: error
//	  priority: default
//	  region: own
//	descriptors:
//	  - key: path
//	    value: /api/*         # absent or empty: any value
//	    share_threshold: true # all matches of the pattern share one counter
//	    priority: critical    # or default, sheddable; also of those below it
//	    shadow_mode: true     # counts, and never denies
//	    quota_mode: true      # of a request's quota limits one that fits is enough
//	    metadata: {any: thing} # goes with the answer
//	    detailed_metric: true # these two put values of requests into the names
//	    value_to_metric: true #   of the metrics that statsd gets
//	    rate_limit:           # or rate_limits, a list: all apply
//	      requests_per_unit: 60   # 0 denies everything
//	      unit: minute            # second … year, in any case; or window: 30s
//	      unit_multiplier: 5
//	      calendar: true          # windows begin with the hour, day, week (on
//	      time_zone: Europe/Paris #   Monday), month or year; UTC if not said
//	      algorithm: token_bucket
//	      burst: 20               # capacity of a bucket; requests_per_unit if not said
//	      overdraw: true          # charges a cost that does not fit in full
//	      on_store_error: error   # or allow, deny, local
//	      priority: sheddable     # that of the descriptor if not said
//	      region: shared          # by all regions; or own
//	      name: api               # sent in headers: printable ASCII without " and \
//	      replaces: [{name: x}]   # that limit does not apply when this rule does
//	    descriptors: []       # the next entry
//	  - key: partner
//	    rate_limit: {unlimited: true} # beside it only name and replaces
//
// Without calendar, which is the default, a month has 30 days and a year 365,
// and a window begins at a multiple of its length since 1970: a week on
// Thursday, 00:00 UTC.
//
// Loading is strict. An unknown field, one at the wrong level, one that is
// given twice, a rule that nothing can reach, the name of no limit in replaces,
// a number that does not fit: all are errors, each with its place, and all are
// reported at once. Plain scalars keep their spelling where text is wanted, but
// numbers with a fraction need quotes; booleans are those of YAML 1.1; aliases
// and << work, and expand to a bounded number of values; !!binary writes raw
// bytes.
package descriptors
