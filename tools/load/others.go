package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"
)

// others are what else kept the machine busy while something was measured: the
// share of all cores that went to other programs, or to other machines on the
// same hardware. It says how far latencies can be trusted.
type others struct {
	Rows   float64 `json:"rows"`
	Pairs  float64 `json:"half_rate"`
	Curves float64 `json:"curves"`
}

// besides runs a part of the measurement and tells the share of others
// meanwhile.
func (b *bench) besides(part func() error) (share float64, err error) {
	began := time.Now()
	busy, ours := busyTime(), b.ours()
	if err := part(); err != nil {
		return 0, err
	}
	theirs := busyTime() - busy - (b.ours() - ours)
	return max(0, theirs.Seconds()/(time.Since(began).Seconds()*float64(runtime.NumCPU()))), nil
}

// ours is the processor's time of all that was started, and our own.
func (b *bench) ours() time.Duration {
	total := ownTime()
	for _, p := range b.servers {
		t, _ := p.time() // one that has ended is found where it is loaded
		total += t
	}
	t, _ := b.redis.time()
	return total + t
}

// busyTime is the time for which all cores together were not idle, by Linux'
// account in hundredths of a second.
func busyTime() time.Duration {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0
	}
	line, _, _ := strings.Cut(string(text), "\n")
	var user, nice, system, idle, wait, irq, softirq, steal int64
	_, _ = fmt.Sscanf(line, "cpu %d %d %d %d %d %d %d %d", &user, &nice, &system, &idle, &wait, &irq, &softirq, &steal)
	return time.Duration(user+nice+system+irq+softirq+steal) * 10 * time.Millisecond
}
