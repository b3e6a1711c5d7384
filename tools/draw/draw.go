package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// drawAlgorithm draws what came in, what the algorithm held at each instant,
// and how many requests were in fact let through in the window's length before.
func drawAlgorithm(r *run) string {
	c := &canvas{y: margin}
	passed := r.passed()
	p := c.panel(fmt.Sprintf("requests: %s let through, %s refused", coloured(len(passed), blue),
		coloured(len(r.arrivals)-len(passed), orange)), 36, 2)
	p.requests(r)
	drawState(c, r)
	if r.algorithm == algorithm.LeakyBucket {
		p = c.panel("when they leave the queue, if the caller waits as told", 18, 1)
		p.ticks(r.left(), 0, 1, blue)
	}
	counts := lastWindow(passed)
	highest := most(counts)
	p = c.panel(fmt.Sprintf("let through in the 10 s before, counted: at most %.0f", highest.used), 76, 21, 0, 10, 20)
	p.limit("")
	p.curve(counts)
	c.addf(`<circle cx="%.1f" cy="%.1f" r="3" fill="%s"/>`, x(highest.at), p.y(highest.used), blue)
	return c.svg(r.algorithm.Name, fmt.Sprintf("The traffic of all pictures, decided by %s: ten requests in ten seconds.", r.algorithm.Name))
}

// drawState draws what the algorithm keeps.
func drawState(c *canvas, r *run) {
	switch r.algorithm {
	case algorithm.FixedWindow:
		p := c.panel("what it counts: requests since the boundary", 110, 11.5, 0, 5, 10)
		p.limit("limit 10")
		p.curve(r.looks)
	case algorithm.SlidingWindowLog:
		p := c.panel("what it keeps: each request for 10 s, at most ten at a time", 110, requests)
		p.lives(r.passed())
	case algorithm.SlidingWindowCounter:
		p := c.panel("what it estimates: requests since the boundary (dark) + the weight of the window before (light)", 110, 11.5, 0, 5, 10)
		p.limit("limit 10")
		p.area(inWindow(r.passed()), .35)
		p.curve(r.looks)
	case algorithm.TokenBucket:
		p := c.panel("what it holds: tokens, one more each second", 110, 11.5, 0, 5, 10)
		p.limit("capacity 10")
		tokens := make([]look, len(r.looks))
		for i, l := range r.looks {
			tokens[i] = look{l.at, requests - l.used}
		}
		p.curve(tokens)
	case algorithm.LeakyBucket:
		p := c.panel("how full it is: one leaves each second", 110, 11.5, 0, 5, 10)
		p.limit("capacity 10")
		p.curve(r.looks)
	}
}

// drawCompared draws what each algorithm made of the same traffic.
func drawCompared(runs []*run) string {
	c := &canvas{y: margin}
	for _, r := range runs {
		passed := r.passed()
		p := c.panel(fmt.Sprintf("%s: %s let through, at most %.0f in 10 s", r.algorithm.Name,
			coloured(len(passed), blue), most(lastWindow(passed)).used), 36, 2)
		p.requests(r)
		if r.algorithm == algorithm.LeakyBucket {
			p = c.panel("leaky_bucket, as its requests leave the queue", 18, 1)
			p.ticks(r.left(), 0, 1, blue)
		}
	}
	return c.svg("the algorithms compared", "The same traffic decided by each algorithm: ten requests in ten seconds.")
}

// requests draws those let through upwards, those refused downwards.
func (p *panel) requests(r *run) {
	p.c.line(left, p.y(1), right, p.y(1), `stroke="`+grey+`" stroke-opacity=".5"`)
	var refused []time.Duration
	for _, a := range r.arrivals {
		if !a.allowed {
			refused = append(refused, a.at)
		}
	}
	p.ticks(r.passed(), 1.08, 2, blue)
	p.ticks(refused, 0.3, 0.92, orange)
}

// ticks draws a stroke at each instant, between two values.
func (p *panel) ticks(instants []time.Duration, from, to float64, colour string) {
	var b strings.Builder
	for _, at := range instants {
		fmt.Fprintf(&b, "M%.1f %.1fV%.1f", x(at), p.y(from), p.y(to))
	}
	p.c.addf(`<path d="%s" stroke="%s" stroke-width="2"/>`, &b, colour)
}

// lives draws each request as a bar from its instant to a window later, in the
// lowest lane that is free.
func (p *panel) lives(instants []time.Duration) {
	var free [requests]time.Duration
	for _, lane := range []int{1, 5, 10} {
		p.mark(float64(lane)-.5, lane)
	}
	for _, at := range instants {
		for lane := range free {
			if free[lane] > at {
				continue
			}
			free[lane] = at + window
			end := min(free[lane], shown)
			p.c.addf(`<path d="M%.1f %.1fH%.1f" stroke="%s" stroke-opacity=".5" stroke-width="6"/>`,
				x(at), p.y(float64(lane)+.5), x(end), blue)
			p.ticks([]time.Duration{at}, float64(lane)+.15, float64(lane)+.85, blue)
			break
		}
	}
}

// coloured writes a number in a colour, for a caption.
func coloured(n int, colour string) string {
	return fmt.Sprintf(`<tspan fill="%s" font-weight="bold">%d</tspan>`, colour, n)
}
