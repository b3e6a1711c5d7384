package main

import (
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// All pictures show 36 seconds of a limit of ten requests in ten seconds.
const (
	requests = 10
	window   = 10 * time.Second
	shown    = 36 * time.Second
)

// A request costs this many hits, of a limit that is as many times larger.
// Decisions are the same as with one hit each, and a look at the state between
// two requests tells fractions of one.
const fine = 100

// frame is the time between two looks.
const frame = 20 * time.Millisecond

// start is when the pictures begin, in µs since the epoch: at a window's
// boundary.
var start = int64(1e15) - int64(1e15)%window.Microseconds()

// arrivals are the same for every algorithm: twelve requests in a row before a
// boundary, twelve after it, then a steady stream a little above the limit.
func arrivals() []time.Duration {
	var at []time.Duration
	for i := range 12 {
		at = append(at, 7400*time.Millisecond+time.Duration(i)*200*time.Millisecond)
	}
	for i := range 12 {
		at = append(at, window+100*time.Millisecond+time.Duration(i)*200*time.Millisecond)
	}
	for t := 14 * time.Second; t < shown-time.Second; t += 800 * time.Millisecond {
		at = append(at, t)
	}
	return at
}

// arrival is a request and what became of it.
type arrival struct {
	at      time.Duration // since the start
	allowed bool
	delay   time.Duration // of a leaky bucket
}

// look is what an algorithm holds used at an instant, in requests.
type look struct {
	at   time.Duration
	used float64
}

// run is the traffic as one algorithm decided it.
type run struct {
	algorithm *algorithm.Algorithm
	arrivals  []arrival
	looks     []look
}

// play lets an algorithm decide the traffic.
func play(a *algorithm.Algorithm) (*run, error) {
	limit, err := algorithm.NewLimit(algorithm.Spec{Algorithm: a.Name, Requests: requests * fine, Window: window})
	if err != nil {
		return nil, err
	}
	r, state, next := &run{algorithm: a}, algorithm.State{}, arrivals()
	decide := func(at time.Duration, hits int64) algorithm.Decision {
		out := make([]algorithm.Decision, 1)
		algorithm.Decide(start+at.Microseconds(), []algorithm.Ask{{Limit: limit, Hits: hits}}, []*algorithm.State{&state}, out)
		return out[0]
	}
	for at := time.Duration(0); at <= shown; at += frame {
		d := decide(at, 0)
		r.looks = append(r.looks, look{at, float64(d.Before) / fine})
		for len(next) > 0 && next[0] == at {
			d = decide(at, fine)
			r.arrivals = append(r.arrivals, arrival{at, d.Outcome == algorithm.Allowed, d.Delay})
			r.looks = append(r.looks, look{at, float64(d.After) / fine})
			next = next[1:]
		}
	}
	return r, nil
}

// passed returns the instants of the requests that were let through.
func (r *run) passed() []time.Duration {
	var at []time.Duration
	for _, a := range r.arrivals {
		if a.allowed {
			at = append(at, a.at)
		}
	}
	return at
}

// left returns when the requests would leave a leaky bucket's queue.
func (r *run) left() []time.Duration {
	var at []time.Duration
	for _, a := range r.arrivals {
		if a.allowed && a.at+a.delay <= shown {
			at = append(at, a.at+a.delay)
		}
	}
	return at
}

// lastWindow counts how many instants lie within the window's length before
// each moment. It is plain counting, by no algorithm.
func lastWindow(instants []time.Duration) []look {
	return count(instants, func(at time.Duration) time.Duration { return at - window + 1 })
}

// inWindow counts the instants since the last boundary.
func inWindow(instants []time.Duration) []look {
	return count(instants, func(at time.Duration) time.Duration { return at - at%window })
}

// count tells for each frame how many instants lie between the first that is to
// be counted and the frame.
func count(instants []time.Duration, first func(at time.Duration) time.Duration) []look {
	var counts []look
	for at := time.Duration(0); at <= shown; at += frame {
		n := 0
		for _, i := range instants {
			if first(at) <= i && i <= at {
				n++
			}
		}
		counts = append(counts, look{at, float64(n)})
	}
	return counts
}

// most returns the first of the highest values.
func most(looks []look) look {
	highest := looks[0]
	for _, l := range looks {
		if l.used > highest.used {
			highest = l
		}
	}
	return highest
}
