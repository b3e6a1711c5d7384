package main

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Colours that can be read on white and on black. Blue and orange are told
// apart by those who do not see red and green.
const (
	grey   = "#747c86"
	blue   = "#2f81f7"
	orange = "#d9692a"
)

// The picture's measures, in pixels. Panels stand below each other, all with
// the same axis of time.
const (
	width  = 760
	left   = 40
	right  = width - 16
	margin = 8 // above the first panel
	above  = 22
	below  = 18
	xAxis  = 30
)

// canvas collects the elements of a picture.
type canvas struct {
	body strings.Builder
	y    float64 // where the next panel begins
}

func (c *canvas) addf(format string, args ...any) { fmt.Fprintf(&c.body, format+"\n", args...) }

// text writes words; anchor is start, middle or end.
func (c *canvas) text(x, y float64, anchor, words string) {
	c.addf(`<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`, x, y, anchor, words)
}

func (c *canvas) line(x1, y1, x2, y2 float64, style string) {
	c.addf(`<path d="M%.1f %.1fL%.1f %.1f" %s/>`, x1, y1, x2, y2, style)
}

// x is the place of an instant.
func x(at time.Duration) float64 {
	return left + (right-left)*at.Seconds()/shown.Seconds()
}

// panel is a part of the picture with a scale of its own.
type panel struct {
	c           *canvas
	top, bottom float64
	highest     float64 // value at the top
}

// panel adds a panel with a caption and the given numbers on its scale. One
// without numbers has no axis at its foot.
func (c *canvas) panel(caption string, height, highest float64, scale ...int) *panel {
	c.text(left, c.y+14, "start", caption)
	p := &panel{c: c, top: c.y + above, bottom: c.y + above + height, highest: highest}
	c.y = p.bottom + below
	for at := time.Duration(0); at <= shown; at += window {
		c.line(x(at), p.top, x(at), p.bottom, `stroke="`+grey+`" stroke-opacity=".35"`)
	}
	if len(scale) > 0 {
		c.line(left, p.bottom, right, p.bottom, `stroke="`+grey+`"`)
	}
	for _, n := range scale {
		p.mark(float64(n), n)
	}
	return p
}

// mark writes a number beside the scale.
func (p *panel) mark(value float64, n int) {
	y := p.y(value)
	p.c.text(left-6, y+4, "end", strconv.Itoa(n))
	p.c.line(left-3, y, left, y, `stroke="`+grey+`"`)
}

func (p *panel) y(value float64) float64 {
	return p.bottom - (p.bottom-p.top)*value/p.highest
}

// limit draws a dashed line where the limit is.
func (p *panel) limit(words string) {
	y := p.y(requests)
	p.c.line(left, y, right, y, `stroke="`+grey+`" stroke-dasharray="5 4"`)
	p.c.text(right, y-5, "end", words)
}

// path is a curve through values. Points on a line with their neighbours are
// left out.
func (p *panel) path(values []look) string {
	var b strings.Builder
	for i, v := range values {
		if i > 0 && i < len(values)-1 && between(values[i-1], v, values[i+1]) {
			continue
		}
		letter := "L"
		if i == 0 {
			letter = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", letter, x(v.at), p.y(v.used))
	}
	return b.String()
}

// between reports whether b lies on the line from a to c, nearly.
func between(a, b, c look) bool {
	if a.at == c.at {
		return a.used <= b.used && b.used <= c.used
	}
	on := a.used + (c.used-a.used)*float64(b.at-a.at)/float64(c.at-a.at)
	return on-b.used < 1e-9 && b.used-on < 1e-9
}

// area fills below a curve.
func (p *panel) area(values []look, opacity float64) {
	first, last := values[0], values[len(values)-1]
	p.c.addf(`<path d="%sL%.1f %.1fL%.1f %.1fZ" fill="%s" fill-opacity="%.2f"/>`,
		p.path(values), x(last.at), p.bottom, x(first.at), p.bottom, blue, opacity)
}

// curve draws values with the area below them.
func (p *panel) curve(values []look) {
	p.area(values, .15)
	p.c.addf(`<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`, p.path(values), blue)
}

// svg closes the picture with the axis of time.
func (c *canvas) svg(title, about string) string {
	c.y -= below
	c.line(left, c.y, right, c.y, `stroke="`+grey+`"`)
	for at := time.Duration(0); at <= shown; at += window / 2 {
		words := fmt.Sprintf("%.0f s", at.Seconds())
		c.text(x(at), c.y+16, "middle", words)
		c.line(x(at), c.y, x(at), c.y+4, `stroke="`+grey+`"`)
	}
	height := c.y + xAxis
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%.0f" viewBox="0 0 %d %.0f" role="img" font-family="system-ui, sans-serif" font-size="12" fill="%s">
<title>%s</title>
<desc>%s Drawn by tools/draw.</desc>
%s</svg>
`, width, height, width, height, grey, title, about, c.body.String())
}
