package algorithm

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"
)

// limitsToEncode has a limit of each algorithm.
func limitsToEncode(t testing.TB) []*Limit {
	t.Helper()
	var all []*Limit
	for _, a := range All {
		l, err := NewLimit(Spec{Algorithm: a.Name, Requests: 7, Window: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// What is decided on a state that was written and read is decided as on the state
// itself, history by history.
func TestStatesAreReadAsWritten(t *testing.T) {
	for _, l := range limitsToEncode(t) {
		random := rand.New(rand.NewPCG(1, 2))
		var kept, read State
		now := int64(1_800_000_000_000_000)
		for step := range 500 {
			now += random.Int64N(l.windowµ / 4)
			ask := []Ask{{Limit: l, Hits: random.Int64N(4), Mode: Mode(random.IntN(3))}}
			var want, got [1]Decision
			Decide(now, ask, []*State{&kept}, want[:])
			Decide(now, ask, []*State{&read}, got[:])
			if got != want {
				t.Fatalf("%s step %d: %+v, want %+v", l.Algorithm.Name, step, got, want)
			}
			var err error
			if read, err = l.DecodeState(l.AppendState(nil, &read)); err != nil {
				t.Fatalf("%s step %d: %v", l.Algorithm.Name, step, err)
			}
		}
	}
}

func TestCorruptStatesAreRefused(t *testing.T) {
	limits := limitsToEncode(t)
	window, log, bucket := limits[0], limits[1], limits[3]
	for name, row := range map[string]struct {
		limit *Limit
		bytes []byte
	}{
		"nothing":                  {window, nil},
		"another kind":             {window, []byte("7 hits")},
		"too short":                {window, []byte{encodedNumbers, 1, 2}},
		"too long":                 {window, []byte{encodedNumbers, 1, 2, 3, 4}},
		"a number that never ends": {window, bytes.Repeat([]byte{0xff}, 12)},
		"a number that is too big": {window, []byte{encodedNumbers, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 2, 3}},
		"a log for a window":       {window, log.AppendState(nil, &State{Log: []int64{1}})},
		"a window for a log":       {log, window.AppendState(nil, &State{At: 1, Used: 1, Aux: 2})},
		"a level without a scale":  {bucket, []byte{encodedNumbers, 1, 2, 0}},
		"a log of too many":        {log, append([]byte{encodedLog}, make([]byte, MaxLogRequests+2)...)},
		"half an instant":          {log, []byte{encodedLog, 0x80}},
	} {
		if s, err := row.limit.DecodeState(row.bytes); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: read as %+v, %v", name, s, err)
		}
	}
}

// Whatever stands there is refused, or can be decided on and written again.
func FuzzDecodeState(f *testing.F) {
	limits := limitsToEncode(f)
	for i, l := range limits {
		f.Add(uint8(i), l.AppendState(nil, &State{At: 1 << 50, Used: 3, Aux: 1, Log: []int64{1 << 50, 1<<50 + 1}}), int64(1<<50))
	}
	f.Fuzz(func(t *testing.T, which uint8, b []byte, now int64) {
		l := limits[int(which)%len(limits)]
		s, err := l.DecodeState(b)
		if err != nil {
			return
		}
		if again, err := l.DecodeState(l.AppendState(nil, &s)); err != nil || !reflect.DeepEqual(again, s) {
			t.Fatalf("%+v is read as %+v, %v", s, again, err)
		}
		now = max(0, min(now, maxExact))
		var out [1]Decision
		Decide(now, []Ask{{Limit: l, Hits: 1}}, []*State{&s}, out[:])
		if d := out[0]; d.Before < 0 || d.After < d.Before || d.Remaining < 0 || d.Remaining > l.Capacity {
			t.Fatalf("%+v", d)
		}
	})
}
