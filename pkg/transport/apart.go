package transport

import "time"

// A batch is decided in one go, and so within the time of the call that may wait
// least: were the store slow, or that call nearly late already, it would take
// the others with it. So calls that may wait much longer are decided apart, by
// a goroutine of their own. The calls of a proxy have one timeout, as a rule,
// and stay together.

// setApart returns the calls of a batch that are to be decided together, and has
// those decided that may wait more than twice as long as the first of them.
func (c *conn) setApart(batch []*Call, now time.Time) []*Call {
	if len(batch) < 2 || c.server.options.Inline || c.behind >= mostBehind {
		return batch
	}
	var soonest time.Time
	for _, call := range batch {
		if end := call.Deadline; !end.IsZero() && (soonest.IsZero() || end.Before(soonest)) {
			soonest = end
		}
	}
	if soonest.IsZero() {
		return batch
	}
	latest := soonest.Add(max(0, soonest.Sub(now)))
	together := batch[:0]
	var apart []*Call
	for _, call := range batch {
		if call.Deadline.IsZero() || call.Deadline.After(latest) {
			apart = append(apart, call)
		} else {
			together = append(together, call)
		}
	}
	if len(apart) > 0 {
		c.behind++
		go c.decideApart(apart)
	}
	return together
}

// decideApart decides calls besides the goroutine that reads.
func (c *conn) decideApart(batch []*Call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.decideTogether(c.setApart(batch, time.Now()))
	c.behind--
	c.now = time.Now()
	c.flush()
	c.settle()
}
