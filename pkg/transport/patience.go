package transport

import (
	"time"

	"golang.org/x/net/http2"
)

// Each frame that brings us no nearer to answering a call costs a client some of
// our patience; calls that we answer and time that passes restore it. So a
// client may ping, reset and adjust windows as much as its calls can be said to
// need, and a flood ends within mostPatience frames.
//
// The numbers are generous: each such frame costs us less than a call, and a
// proxy that many clients share must not lose its connection because one of
// them misbehaves.
const (
	mostPatience = 10_000
	perCall      = 10
	perSecond    = 1_000
)

// annoy takes some patience, and ends the connection when none is left.
func (c *conn) annoy(cost int64) {
	if c.patience -= cost; c.patience >= 0 {
		return
	}
	passed := min(c.now.Sub(c.patienceAt), time.Minute)
	c.patienceAt = c.now
	c.patience = min(c.patience+int64(passed*perSecond/time.Second), mostPatience)
	if c.patience < 0 {
		c.fail(http2.ErrCodeEnhanceYourCalm, "too many frames that are of no use")
	}
}

// calmDown restores patience after some calls were answered.
func (c *conn) calmDown(calls int) {
	c.patience = min(c.patience+perCall*int64(calls), mostPatience)
}
