// Package spelling finds the word that was probably meant.
package spelling

import "strings"

// Nearest returns the candidate that a typing mistake would most likely have
// turned into word, or the shortest that word is the beginning of; "" when
// none is close.
func Nearest(word string, candidates []string) string {
	best, least := "", max(1, (len(word)+2)/3)+1
	for _, c := range candidates {
		d := distance(word, c)
		if d > 1 && len(word) > 2 && strings.HasPrefix(c, word) {
			d = 1
		}
		if d < least || d == least && len(c) < len(best) {
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
