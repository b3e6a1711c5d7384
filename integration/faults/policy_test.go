package faults

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// long is a window in which nothing comes back during a run, so that counts are exact whatever the algorithm.
var long = calm(100 * time.Hour)

// calm returns a window at least as long whose boundary is not within the next two hours or the last.
func calm(window time.Duration) time.Duration {
	const away = 2 * time.Hour
	for ; ; window += time.Hour {
		if since := time.Duration(time.Now().UnixNano()) % window; since > away && window-since > away {
			return window
		}
	}
}

// kind is a limit that there is of each algorithm and policy.
type kind struct {
	name     string
	requests uint64
	window   time.Duration
}

// kinds are those of a run under load.
var kinds = []kind{
	{"tally", algorithm.MaxLogRequests, long}, // never used up: what it holds in the end is what was charged
	{"scarce", 6, long},                       // used up within a run, and by a share within an outage
	{"single", 1, long},                       // used up at once, and free again after a loss
	{"brisk", 3, 2 * time.Second},             // used up and free again all the time
}

// policies are the words of on_store_error.
var policies = []struct {
	name   string
	policy algorithm.FailurePolicy
}{
	{"error", algorithm.FailError},
	{"allow", algorithm.FailAllow},
	{"deny", algorithm.FailDeny},
	{"local", algorithm.FailLocal},
}

// visitors is how many keys the limit for everybody has.
const visitors = 200

// ruleBook returns the rules of a run, and a directory with a policy file that says the same.
func ruleBook(t *testing.T, kinds []kind) (rules map[string]rule, dir string) {
	t.Helper()
	rules = map[string]rule{}
	var file strings.Builder
	fmt.Fprintln(&file, "domain: faults\ndescriptors:")
	add := func(key string, spec algorithm.Spec, policy algorithm.FailurePolicy) {
		limit, err := algorithm.NewLimit(spec)
		if err != nil {
			t.Fatal(err)
		}
		rules[key] = rule{limit, policy}
	}
	for _, a := range algorithm.All {
		for _, p := range policies {
			for _, k := range kinds {
				key := a.Name + "/" + p.name + "/" + k.name
				fmt.Fprintf(&file, "  - {key: hot, value: %s, rate_limit: {algorithm: %s, requests_per_unit: %d, window: %s, on_store_error: %s}}\n",
					key, a.Name, k.requests, k.window, p.name)
				add(key, algorithm.Spec{Algorithm: a.Name, Requests: k.requests, Window: k.window}, p.policy)
			}
		}
	}
	fmt.Fprintf(&file, "  - {key: visitor, rate_limit: {requests_per_unit: 3, window: %s}}\n", long)
	for i := range visitors {
		add(fmt.Sprintf("visitor %03d", i), algorithm.Spec{Requests: 3, Window: long}, algorithm.FailError)
	}
	dir = t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "faults.yaml"), []byte(file.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return rules, dir
}
