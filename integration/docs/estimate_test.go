package docs

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// TestEstimateOnRandomTraffic plays requests at random (Poisson) against a sliding window counter of 100 a minute, and wants
// docs/algorithms.md to tell what comes out. The traffic is the same each time.
func TestEstimateOnRandomTraffic(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/algorithms.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, offered := range []int{50, 80, 100, 200, 500} {
		row := estimate(t, offered)
		if !strings.Contains(string(text), row+"\n") {
			t.Errorf("docs/algorithms.md does not have the row\n%s", row)
		}
	}
}

// estimate returns a row of the table: offered a minute, let through a minute, most in any 60 s, and the share of the requests
// that exact counting of what was let through would have decided otherwise.
func estimate(t *testing.T, offered int) string {
	t.Helper()
	const requests = 100_000
	minute := time.Minute.Microseconds()
	limit, err := algorithm.NewLimit(algorithm.Spec{Algorithm: algorithm.SlidingWindowCounter.Name, Requests: 100, Window: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	random, state, out := rand.New(rand.NewPCG(1, 2)), algorithm.State{}, make([]algorithm.Decision, 1)
	start := int64(1e15)
	now, admitted, most, otherwise := start, 0, 0, 0
	var last []int64 // let through in the last minute
	for range requests {
		now += int64(random.ExpFloat64() * float64(minute) / float64(offered))
		for len(last) > 0 && last[0] <= now-minute {
			last = last[1:]
		}
		algorithm.Decide(now, []algorithm.Ask{{Limit: limit, Hits: 1}}, []*algorithm.State{&state}, out)
		allowed := out[0].Outcome == algorithm.Allowed
		if allowed != (len(last) < 100) {
			otherwise++
		}
		if allowed {
			last = append(last, now)
			admitted++
			most = max(most, len(last))
		}
	}
	minutes := float64(now-start) / float64(minute)
	return fmt.Sprintf("| %d | %.0f | %d | %.1f %% |", offered, float64(admitted)/minutes, most, 100*float64(otherwise)/requests)
}
