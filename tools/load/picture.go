package main

import (
	"fmt"
	"math"
	"strings"
)

// Colours and measures as in the pictures of tools/draw: they can be read on
// white and on black.
const (
	grey   = "#747c86"
	blue   = "#2f81f7"
	orange = "#d9692a"

	pictureWidth = 760
	leftEdge     = 48
	rightEdge    = pictureWidth - 24
	panelHeight  = 170
	captionSpace = 26
	panelGap     = 24
)

// picture draws the curves of a run: what a request costs, and below, how long
// it takes, by how many are offered.
func (r *run) picture() string {
	p := &picture{across: r.scale(offered)}
	p.legend(r.Curves)
	cost := p.panel("CPU of a request, µs, of server and Redis; median of the rounds", r.scale(cost))
	late := p.panel("p99, ms; of the calmest round", r.scale(latest))
	for _, c := range r.Curves {
		cost.curve(c)
		late.curve(c)
	}
	p.axis()
	about := fmt.Sprintf("What a request costs, and how long 99 of 100 take at most, by requests offered in a second. Drawn by tools/load from a run of %s.", r.Began.Format("2 January 2006"))
	height := p.y + 44
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" viewBox="0 0 %d %.0f" role="img" font-family="system-ui, sans-serif" font-size="12" fill="%s">
<title>cost and latency by load</title>
<desc>%s</desc>
%s</svg>
`, pictureWidth, height, pictureWidth, height, grey, about, p.body.String())
}

// A figure sums up the samples of a point of a curve.
type figure func(samples []sample) float64

func offered(samples []sample) float64 {
	return median(samples, func(s sample) float64 { return s.Offered })
}

func cost(samples []sample) float64 { return median(samples, togetherTime) }

// latest is the p99 of the round in which it was lowest, in ms: what else runs
// on a machine can only add to it.
func latest(samples []sample) float64 {
	lowest := math.Inf(1)
	for _, s := range samples {
		lowest = min(lowest, s.P99/1000)
	}
	return lowest
}

// scale tells where the values of a figure stand: a decade is as long as any
// other.
type scale struct {
	figure          figure
	lowest, highest float64
}

// scale returns one from 1, 2 or 5 times a power of ten to another, between
// which all points of the curves lie.
func (r *run) scale(f figure) scale {
	s := scale{f, math.Inf(1), 0}
	for _, c := range r.Curves {
		for _, samples := range c.Points {
			v := max(.001, f(samples))
			s.lowest, s.highest = min(s.lowest, v), max(s.highest, v)
		}
	}
	if s.highest == 0 {
		return scale{f, 1, 10}
	}
	for _, v := range steps(s.lowest/10, s.lowest) {
		s.lowest = v
	}
	s.highest = steps(s.highest*1.01, s.highest*11)[0]
	return s
}

// steps returns the 1, 2 and 5 times a power of ten of a range.
func steps(from, to float64) []float64 {
	var all []float64
	for decade := math.Floor(math.Log10(from)); decade <= math.Log10(to); decade++ {
		for _, v := range []float64{1, 2, 5} {
			if v *= math.Pow(10, decade); v >= from*.999 && v <= to*1.001 {
				all = append(all, v)
			}
		}
	}
	return all
}

// part is the place of a value on the scale, from 0 to 1.
func (s scale) part(v float64) float64 {
	return math.Log(max(v, s.lowest)/s.lowest) / math.Log(s.highest/s.lowest)
}

// picture collects the elements of a picture.
type picture struct {
	body   strings.Builder
	y      float64 // where the next panel begins
	across scale   // of what is offered
}

func (p *picture) addf(format string, args ...any) { fmt.Fprintf(&p.body, format+"\n", args...) }

func (p *picture) text(x, y float64, anchor, words string) {
	p.addf(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, words)
}

func (p *picture) x(offered float64) float64 {
	return leftEdge + (rightEdge-leftEdge)*p.across.part(offered)
}

// axis draws the scale of what is offered.
func (p *picture) axis() {
	p.y -= panelGap
	for _, v := range steps(p.across.lowest, p.across.highest) {
		words := fmt.Sprintf("%g", v)
		switch {
		case v >= 1e6:
			words = fmt.Sprintf("%g M", v/1e6)
		case v >= 1000:
			words = fmt.Sprintf("%g k", v/1000)
		}
		p.text(p.x(v), p.y+16, "middle", words)
	}
	p.text((leftEdge+rightEdge)/2, p.y+34, "middle", "requests offered in a second, on 2 connections")
}

// looks are how curves are drawn: colour, dashes, and the name in the picture.
var looks = map[string][3]string{
	frameFloorServer: {grey, "", "frame floor"},
	memoryServer:     {blue, "", "memory"},
	redisServer:      {orange, "", "Redis"},
	apartServer:      {orange, ` stroke-dasharray="5 4"`, "grpc-go, a script call each"},
}

// legend names the curves.
func (p *picture) legend(curves []*curve) {
	x := float64(leftEdge)
	for _, c := range curves {
		look := looks[c.Server]
		p.addf(`<path d="M%.1f 12h22" fill="none" stroke="%s" stroke-width="2"%s/>`, x, look[0], look[1])
		p.addf(`<text x="%.1f" y="16" fill="%s" font-weight="bold">%s</text>`, x+28, look[0], look[2])
		x += 56 + 7.6*float64(len(look[2]))
	}
	p.y = 26
}

// panel is a part of the picture with a scale of its own.
type panel struct {
	*picture

	foot  float64
	scale scale
}

func (p *picture) panel(caption string, s scale) *panel {
	p.text(leftEdge, p.y+16, "start", caption)
	n := &panel{picture: p, foot: p.y + captionSpace + panelHeight, scale: s}
	for _, v := range steps(s.lowest, s.highest) {
		p.addf(`<path d="M%d %.1fH%d" stroke="%s" stroke-opacity=".25"/>`, leftEdge, n.at(v), rightEdge, grey)
		p.text(leftEdge-6, n.at(v)+4, "end", fmt.Sprintf("%g", v))
	}
	for _, v := range steps(p.across.lowest, p.across.highest) {
		p.addf(`<path d="M%.1f %.1fV%.1f" stroke="%s" stroke-opacity=".25"/>`, p.x(v), n.foot, n.foot-panelHeight, grey)
	}
	p.y = n.foot + panelGap
	return n
}

func (n *panel) at(v float64) float64 { return n.foot - panelHeight*n.scale.part(v) }

// curve draws the points of a curve.
func (n *panel) curve(c *curve) {
	look := looks[c.Server]
	var line strings.Builder
	for i, samples := range c.Points {
		x, y := n.x(offered(samples)), n.at(n.scale.figure(samples))
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		fmt.Fprintf(&line, "%s%.1f %.1f", letter, x, y)
		n.addf(`<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`, x, y, look[0])
	}
	n.addf(`<path d="%s" fill="none" stroke="%s" stroke-width="1.5"%s/>`, &line, look[0], look[1])
}
