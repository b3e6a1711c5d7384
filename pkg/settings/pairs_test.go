package settings

import (
	"fmt"
	"testing"
)

func TestParsePairs(t *testing.T) {
	for _, row := range []struct{ text, want, err string }{
		{"", "map[]", ""},
		{" ", "map[]", ""},
		{"a=b", "map[a:b]", ""},
		{"a=b, c = d=e==", "map[a:b c:d=e==]", ""},
		{"a=", "map[a:]", ""},
		{"a", "", "part 1 is not name=value; write name=value,name=value"},
		{"a=b,", "", "part 2 is not name=value; write name=value,name=value"},
		{"=b", "", "part 1 is not name=value; write name=value,name=value"},
		{"a=b,a=c", "", `has the name "a" twice`},
	} {
		pairs, err := ParsePairs(row.text)
		if row.err != "" {
			if err == nil || err.Error() != row.err {
				t.Errorf("%q: error %v, want %s", row.text, err, row.err)
			}
			continue
		}
		if got := fmt.Sprint(pairs); err != nil || got != row.want {
			t.Errorf("%q: %s, %v, want %s", row.text, got, err, row.want)
		}
	}
}
