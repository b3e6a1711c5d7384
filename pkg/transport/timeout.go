package transport

import (
	"errors"
	"math"
	"time"
)

var errTimeout = errors.New("not one to eight digits and one of H, M, S, m, u, n")

// parseTimeout parses a grpc-timeout. One that is longer than a Duration is the
// longest Duration.
func parseTimeout(s string) (time.Duration, error) {
	if len(s) < 2 || len(s) > 9 {
		return 0, errTimeout
	}
	n := int64(0)
	for _, c := range []byte(s[:len(s)-1]) {
		if c < '0' || c > '9' {
			return 0, errTimeout
		}
		n = n*10 + int64(c-'0')
	}
	var unit time.Duration
	switch s[len(s)-1] {
	case 'H':
		unit = time.Hour
	case 'M':
		unit = time.Minute
	case 'S':
		unit = time.Second
	case 'm':
		unit = time.Millisecond
	case 'u':
		unit = time.Microsecond
	case 'n':
		unit = time.Nanosecond
	default:
		return 0, errTimeout
	}
	if n > math.MaxInt64/int64(unit) {
		return math.MaxInt64, nil
	}
	return time.Duration(n) * unit, nil
}
