package descriptors

import (
	"fmt"
	"strings"
)

// didYouMean ends a message about a word that is none of the allowed: with the
// one that was probably meant, or with all.
func didYouMean(word string, allowed []string) string {
	if near := nearest(strings.ToLower(word), allowed); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; allowed here: " + strings.Join(allowed, ", ")
}

// nearest returns the candidate that a typing mistake would most likely have
// turned into word, "" when none is close.
func nearest(word string, candidates []string) string {
	best, least := "", (len(word)+2)/3+1
	for _, c := range candidates {
		if d := distance(word, c); d < least {
			best, least = c, d
		}
	}
	return best
}

// distance is the number of bytes to insert, drop, replace or swap with their
// neighbour in order to turn a into b. Long words are far from everything.
func distance(a, b string) int {
	const tooFar = 1 << 20
	if len(a) > 64 || len(b) > 64 {
		return tooFar
	}
	// Three rows of the usual table: that of a[:i-2], a[:i-1] and a[:i].
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			change := last[j-1]
			if a[i-1] != b[j-1] {
				change++
			}
			row[j] = min(change, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
