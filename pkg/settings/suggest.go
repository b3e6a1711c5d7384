package settings

import "github.com/ratelimitd/ratelimitd/internal/spelling"

// didYouMean is the end of a message about an unknown word.
func didYouMean(word string, candidates []string) string {
	if near := spelling.Nearest(word, candidates); near != "" {
		return "; did you mean " + near + "?"
	}
	return ""
}

// allListed is the end of a message about a name that resembles none.
const allListed = "; ratelimitd serve --help lists all"
