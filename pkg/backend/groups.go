package backend

import (
	"iter"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// groups yields the bounds of each request's asks: asks[from:to].
func groups(asks []algorithm.Ask) iter.Seq2[int, int] {
	return func(yield func(from, to int) bool) {
		for from := 0; from < len(asks); {
			to := from + 1
			for to < len(asks) && asks[to].Group == asks[from].Group {
				to++
			}
			if !yield(from, to) {
				return
			}
			from = to
		}
	}
}

// fail makes all decisions Undecided for one reason.
func fail(out []algorithm.Decision, err error) {
	for i := range out {
		out[i] = algorithm.Decision{Err: err}
	}
}
