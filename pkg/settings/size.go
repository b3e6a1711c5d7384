package settings

import (
	"strconv"
	"strings"
)

// Size is a number of bytes.
type Size int64

// units of a size, largest first.
var units = [...]struct {
	name  string
	bytes Size
}{
	{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
}

// String returns the size in the largest unit of which it is a whole number.
func (s Size) String() string {
	for _, u := range units {
		if s != 0 && s%u.bytes == 0 {
			return strconv.FormatInt(int64(s/u.bytes), 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

// parseSize reads a number of bytes with or without a unit. It reports false
// for what is none.
func parseSize(text string) (Size, bool) {
	unit := Size(1)
	for _, u := range units {
		if digits, found := strings.CutSuffix(text, u.name); found {
			text, unit = digits, u.bytes
			break
		}
	}
	n, err := strconv.ParseUint(strings.TrimSpace(text), 10, 31)
	return Size(n) * unit, err == nil
}
