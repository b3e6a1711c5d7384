package descriptors

import (
	"fmt"
	"slices"
	"strings"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// shape is a kind of mapping and the fields it may have. The shapes are the
// policy language: the messages about unknown fields come from them, and so
// does the reference in docs/policies.md.
type shape struct {
	name   string // with its article
	fields []fieldText
}

// fieldText is a field of a shape, in words.
type fieldText struct {
	name    string
	meaning string // in sentences
	allowed string // what follows "allowed is"
	absent  string // what holds when it is absent
}

// has reports whether the shape has a field of that name.
func (s *shape) has(name string) bool {
	return slices.ContainsFunc(s.fields, func(f fieldText) bool { return f.name == name })
}

// names are those of the fields, in the order of the reference.
func (s *shape) names() []string {
	names := make([]string, len(s.fields))
	for i, f := range s.fields {
		names[i] = f.name
	}
	return names
}

// The words that fields take.
var (
	countingWords = []string{"precise", "reference"}
	failureWords  = []string{"error", "allow", "deny", "local"}
	regionWords   = []string{"own", "shared"}
	priorityWords = wordsOf(algorithm.Priorities[:])
)

func wordsOf[T fmt.Stringer](all []T) []string {
	words := make([]string, len(all))
	for i, one := range all {
		words[i] = one.String()
	}
	return words
}

const durations = "a duration from 1ms to 876000h, as in 500ms, 30s, 15m, 36h"

func wholeNumbers(least, most uint64) string {
	return fmt.Sprintf("a whole number from %d to %d", least, most)
}

func oneOf(words []string) string { return "one of " + strings.Join(words, ", ") }

const (
	switches = "true or false"
	required = "an error"
	off      = "false"
)

var shapes = []*shape{&policyShape, &defaultsShape, &descriptorShape, &limitShape, &replacedShape}

var policyShape = shape{"a policy", []fieldText{
	{"domain", "The name that Envoy's filter sends. Several documents and files may say something of one domain.", "a text in UTF-8, not empty", required},
	{"counting", "How the limits of a request are charged: together or not at all (`precise`), or each on its own, denied or not, as envoyproxy/ratelimit does (`reference`). Documents of one domain must agree.", oneOf(countingWords), "the setting `counting`"},
	{"defaults", "What holds for the limits of this document that do not say otherwise.", "a mapping", "nothing"},
	{"descriptors", "The rules, by the first entry of a descriptor.", "a list", "the domain is known and limits nothing"},
}}

var defaultsShape = shape{"defaults", []fieldText{
	{"algorithm", "Also for limits that say `calendar`, which goes with `fixed_window` only.", oneOf(algorithm.Names()), "`fixed_window`"},
	{"on_store_error", "Also for the limits that requests of this domain bring along.", oneOf(failureWords), "`error`"},
	{"priority", "Also for the limits that requests of this domain bring along.", oneOf(priorityWords), "`default`"},
	{"region", "Also for the limits that requests of this domain bring along.", oneOf(regionWords), "`own`"},
}}

var descriptorShape = shape{"a descriptor", []fieldText{
	{"key", "The key of an entry. It must be equal; a `*` in it is no pattern.", "a text, not empty", required},
	{"value", "The value of the entry, or a pattern: each `*` stands for any bytes, also none.", "a text; a number with a fraction in quotes", "any value, and each is counted by itself"},
	{"rate_limit", "The limit of a descriptor that ends with this entry.", "a mapping", "none: the rule is known and limits nothing"},
	{"rate_limits", "Several limits, all of which apply. Not beside `rate_limit`.", fmt.Sprintf("a list of 1 to %d", maxLimits), "see `rate_limit`"},
	{"descriptors", "The rules for descriptors that go on, by their next entry.", fmt.Sprintf("a list, up to %d deep", maxLevels), "descriptors that go on have no rule"},
	{"priority", "For its limits, and for those of the descriptors below it.", oneOf(priorityWords), "that of the descriptor above, or else of `defaults`"},
	{"shadow_mode", "Its limits count and are decided, and never deny.", switches, off},
	{"quota_mode", "Of all limits in quota mode that a request meets, one that fits is enough.", switches, off},
	{"share_threshold", "All values that the pattern matches share one counter.", switches + "; only where `value` has a `*`", off},
	{"detailed_metric", "The rule's metrics for statsd have the values of all entries in their name. See [operations.md](operations.md#statsd).", switches, off},
	{"value_to_metric", "The rule's metrics for statsd, and those of the rules below it, have the value of this entry in their name, where it can be another than `value` and `share_threshold` is off.", switches, off},
	{"metadata", "Goes with the answer, in the dynamic metadata, unless the rule denies.", "a mapping of anything", "none"},
}}

var limitShape = shape{"a rate limit", []fieldText{
	{"requests_per_unit", "How many hits in a window. 0 denies everything.", wholeNumbers(0, algorithm.MaxRequests) + fmt.Sprintf("; at most %d with `sliding_window_log`", algorithm.MaxLogRequests), required},
	{"unit", "The window, by name, in capitals or not. Without `calendar` a month has 30 days and a year 365.", oneOf(unitNames()), "an error, unless `window` is there"},
	{"unit_multiplier", "The window is so many units.", "a whole number from 1; at most 100 years", "1"},
	{"window", "The window, in place of `unit`.", durations, "see `unit`"},
	{"calendar", "The window is an hour, day, week (from Monday), month or year of the calendar. Only with `fixed_window`.", switches, off},
	{"time_zone", "Whose calendar.", "a name of the IANA database, as in Europe/Paris", "UTC"},
	{"algorithm", "How it decides: see [algorithms.md](algorithms.md).", oneOf(algorithm.Names()), "that of `defaults`"},
	{"burst", "How many hits a bucket holds. Only with `token_bucket` and `leaky_bucket`.", wholeNumbers(1, algorithm.MaxRequests), "`requests_per_unit`"},
	{"overdraw", "A cost that does not fit is charged in full all the same, and the key is over until that is worked off.", switches, off},
	{"on_store_error", "What to answer when the store does not decide: a gRPC error, so that Envoy's `failure_mode_deny` decides; OK; OVER_LIMIT; or what this process decides by its share of the limit.", oneOf(failureWords), "that of `defaults`"},
	{"priority", "Which requests are answered first when there are more than can be: see [Priority](#priority).", oneOf(priorityWords), "that of the descriptor"},
	{"region", "Whether each region has a counter of its own, or all share one: see [regions.md](regions.md). Without the setting `region` there is one anyway.", oneOf(regionWords), "that of `defaults`"},
	{"unlimited", "The rule limits nothing, and its descriptor is not counted. Beside it only `name` and `replaces`.", switches, off},
	{"name", "What clients see in headers, and what `replaces` names.", "printable ASCII without `\"` and `\\`", "headers show the keys of the rule"},
	{"replaces", "Limits of the same domain that do not apply to a request which this rule matches.", "a list", "none"},
}}

// referenceFields are the names that envoyproxy/ratelimit knows. It looks at a
// name only where it belongs, and takes it anywhere.
var referenceFields = []string{
	"domain", "key", "value", "descriptors", "rate_limit", "unit", "requests_per_unit", "unlimited", "shadow_mode", "quota_mode",
	"name", "replaces", "detailed_metric", "value_to_metric", "share_threshold", "metadata",
}

func isReferenceField(name string) bool { return slices.Contains(referenceFields, name) }

var replacedShape = shape{"an item of replaces", []fieldText{
	{"name", "The `name` of the limit.", "the name of a limit of the same domain, not its own", required},
}}
