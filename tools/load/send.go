package main

import (
	"encoding/binary"
	"math/rand/v2"
	"os"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/sys/unix"
)

// leastWait bounds how often a load with a rate wakes up, which would cost more
// than what it measures. A request is late by that at most; its latency counts
// from when it was due.
const leastWait = 50 * time.Microsecond

// send sends the connection's share of the load. What can be sent without
// waiting leaves in one write.
func (c *connection) send() {
	random := rand.New(rand.NewPCG(c.seed, 1))
	clock, err := newAlarm()
	if err != nil {
		c.nc.Close()
		return
	}
	defer clock.close()
	var out []byte
	flush := func() {
		if len(out) > 0 {
			_, _ = c.nc.Write(out) // that it failed, receive learns too
			out = out[:0]
		}
	}
	interval := 0.0 // ns
	if c.load.rate > 0 {
		interval = float64(time.Second) * float64(c.load.connections) / c.load.rate
	}
	at := 0.0
	for i := range c.share {
		if interval > 0 {
			at += interval * random.ExpFloat64()
			if wait := time.Duration(at) - time.Since(c.begin); wait > 0 {
				flush()
				clock.wait(max(wait, leastWait))
			}
		}
		message := c.load.requests[random.IntN(len(c.load.requests))]
		if !c.room(len(message), flush) {
			return
		}
		if interval == 0 {
			at = float64(time.Since(c.begin))
		}
		c.due[i].Store(int64(at))
		out = c.appendCall(out, i, message)
	}
	flush()
}

// room waits until another call of a size may leave. It reports false when
// nothing is received any more.
func (c *connection) room(size int, flush func()) bool {
	select {
	case c.slots <- struct{}{}:
	default:
		flush()
		select {
		case c.slots <- struct{}{}:
		case <-c.ended:
			return false
		}
	}
	for c.credit.Load() < int64(size) {
		flush()
		select {
		case <-c.more:
		case <-c.ended:
			return false
		}
	}
	c.credit.Add(-int64(size))
	return true
}

// appendCall appends the frames of a call.
func (c *connection) appendCall(out []byte, i int, message []byte) []byte {
	block := c.block
	if i == 0 {
		block = c.firstBlock
	}
	stream := uint32(2*i + 1)
	out = appendFrameHead(out, len(block), http2.FrameHeaders, http2.FlagHeadersEndHeaders, stream)
	out = append(out, block...)
	out = appendFrameHead(out, len(message), http2.FrameData, http2.FlagDataEndStream, stream)
	return append(out, message...)
}

func appendFrameHead(out []byte, length int, kind http2.FrameType, flags http2.Flags, stream uint32) []byte {
	out = append(out, byte(length>>16), byte(length>>8), byte(length), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(out, stream)
}

// alarm waits for parts of a millisecond, which time.Sleep rounds up when a
// program is idle.
type alarm struct{ file *os.File }

func newAlarm() (*alarm, error) {
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("timerfd_create", err)
	}
	return &alarm{os.NewFile(uintptr(fd), "alarm")}, nil
}

// wait waits for d, which is more than 0.
func (a *alarm) wait(d time.Duration) {
	raw, err := a.file.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) {
			_ = unix.TimerfdSettime(int(fd), 0, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(d))}, nil)
		})
	}
	if err != nil {
		time.Sleep(d)
		return
	}
	var expirations [8]byte
	_, _ = a.file.Read(expirations[:])
}

func (a *alarm) close() { _ = a.file.Close() }
