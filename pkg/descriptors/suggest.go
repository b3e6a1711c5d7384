package descriptors

import (
	"fmt"
	"strings"

	"github.com/ratelimitd/ratelimitd/internal/spelling"
)

// didYouMean ends a message about a word that is none of the allowed: with the
// one that was probably meant, or with all.
func didYouMean(word string, allowed []string) string {
	if near := spelling.Nearest(strings.ToLower(word), allowed); near != "" {
		return fmt.Sprintf("; did you mean %q?", near)
	}
	return "; allowed here: " + strings.Join(allowed, ", ")
}
