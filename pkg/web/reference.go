package web

import (
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// ReferencePages are the pages of envoyproxy/ratelimit that have another name
// here: for what reads them. The command line is shown as it is: secrets must be
// masked.
func ReferencePages(policies func() Policies, commandLine []string) []Page {
	return []Page{
		{Path: "/rlconfig", About: "the limits in force, one a line", Large: true, Show: func(w http.ResponseWriter, _ *http.Request) {
			writeText(w, http.StatusOK, limitLines(policies().Rules))
		}},
		{Path: "/stats", About: "command line and memory of the process", Show: func(w http.ResponseWriter, _ *http.Request) {
			var memory runtime.MemStats
			runtime.ReadMemStats(&memory)
			writeJSON(w, struct {
				CommandLine []string          `json:"cmdline"`
				Memory      *runtime.MemStats `json:"memstats"`
			}{commandLine, &memory})
		}},
	}
}

// limitLines are the limits as envoyproxy/ratelimit writes them, but sorted.
func limitLines(rules *descriptors.Rules) string {
	if rules == nil {
		return ""
	}
	var lines []string
	add := func(name, unit string, requests int64, shadow, quota bool) {
		lines = append(lines, fmt.Sprintf("%s: unit=%s requests_per_unit=%d, shadow_mode: %t, quota_mode: %t\n", printable(name), unit, requests, shadow, quota))
	}
	for _, domain := range rules.Domains() {
		for _, rule := range domain.Rules() {
			if rule.Unlimited {
				add(rule.FullKey(), rlsv3.RateLimitResponse_RateLimit_UNKNOWN.String(), 0, false, false)
			}
			for _, limit := range rule.Limits {
				add(limit.FullKey(), unitOf(limit), limit.Limit.Requests, limit.Shadow, limit.Quota)
			}
		}
	}
	slices.Sort(lines)
	return strings.Join(lines, "")
}

// unitOf is the window of a limit, by its name in the protocol if it has one.
func unitOf(limit *descriptors.Limit) string {
	if limit.Multiplier != 1 {
		return shortDuration(limit.Limit.Window)
	}
	return rlsv3.RateLimitResponse_RateLimit_Unit(limit.Unit).String()
}
