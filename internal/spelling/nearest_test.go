package spelling

import (
	"strings"
	"testing"
)

func TestNearest(t *testing.T) {
	candidates := []string{"second", "minute", "hour", "unit", "unlimited", "redis_url", "redis_username"}
	for word, want := range map[string]string{
		"minit":                  "unit", // as near as minute, and shorter
		"minut":                  "minute",
		"unlimied":               "unlimited",
		"uint":                   "unit", // two letters swapped
		"redis":                  "redis_url",
		"hours":                  "hour",
		"":                       "",
		"fortnight":              "",
		"x":                      "",
		strings.Repeat("h", 100): "",
	} {
		if got := Nearest(word, candidates); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}
