package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// load is a number of requests to a server.
type load struct {
	address  string
	requests [][]byte // to choose from at random
	count    int

	connections int
	streams     int // in flight on each connection, at most

	// rate is how many requests become due in a second, at random instants,
	// whether earlier ones were answered or not. 0: each answer makes room for
	// the next request.
	rate float64
}

const (
	// patience is how long a load may take altogether.
	patience = 2 * time.Minute

	// openStreams bounds the requests in flight of a load with a rate: what a
	// server is sure to take.
	openStreams = 4096
)

// answers are what became of a load.
type answers struct {
	took       time.Duration
	ok, over   int
	failed     int
	failure    string          // the first
	latencies  []time.Duration // of each request, from when it was due; sorted
	generation time.Duration   // the processor's time that sending and receiving took
}

// drive sends a load and waits for all answers.
func drive(ctx context.Context, l load) (*answers, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	connections := make([]*connection, l.connections)
	for i := range connections {
		share := l.count/l.connections + min(1, max(0, l.count%l.connections-i))
		c, err := open(ctx, &l, share, uint64(i))
		if err != nil {
			return nil, err
		}
		defer c.nc.Close()
		defer context.AfterFunc(ctx, func() { c.nc.Close() })()
		connections[i] = c
	}
	before := ownTime()
	begin := time.Now()
	var running sync.WaitGroup
	for _, c := range connections {
		c.begin = begin
		running.Go(c.send)
		running.Go(c.receive)
	}
	running.Wait()
	a := &answers{took: time.Since(begin), generation: ownTime() - before}
	for _, c := range connections {
		if c.err != nil {
			return nil, fmt.Errorf("%s: %w", l.address, c.err)
		}
		a.ok += c.ok
		a.over += c.over
		a.failed += c.failed
		if a.failure == "" {
			a.failure = c.failure
		}
		a.latencies = append(a.latencies, c.latencies...)
	}
	slices.Sort(a.latencies)
	return a, nil
}

// connection is one HTTP/2 connection, with a goroutine that sends and one that
// receives.
type connection struct {
	load  *load
	share int // its part of the load's requests
	seed  uint64
	nc    net.Conn
	begin time.Time

	due    []atomic.Int64 // when each call was due, in ns since begin
	slots  chan struct{}  // one for each call in flight
	credit atomic.Int64   // bytes of DATA that the server takes
	more   chan struct{}  // says that credit grew
	ended  chan struct{}  // closed when nothing is received any more

	firstBlock, block []byte // the headers of the first call, and of every other

	// What receive has found. It is read when both goroutines have ended.
	latencies        []time.Duration
	ok, over, failed int
	failure          string
	err              error
}

// firstCredit is a connection's flow-control window before the server changes
// it.
const firstCredit = 65_535

// open connects, and says hello without waiting for the answer.
func open(ctx context.Context, l *load, share int, seed uint64) (*connection, error) {
	nc, err := (&net.Dialer{}).DialContext(ctx, "tcp", l.address)
	if err != nil {
		return nil, err
	}
	streams := l.streams
	if l.rate > 0 {
		streams = openStreams
	}
	c := &connection{
		load: l, share: share, seed: seed, nc: nc,
		due:   make([]atomic.Int64, share),
		slots: make(chan struct{}, streams),
		more:  make(chan struct{}, 1), ended: make(chan struct{}),
		latencies: make([]time.Duration, 0, share),
	}
	c.credit.Store(firstCredit)
	c.firstBlock, c.block = headerBlocks()
	var hello bytes.Buffer
	hello.WriteString(http2.ClientPreface)
	framer := http2.NewFramer(&hello, nil)
	err = framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 1 << 20})
	if err == nil {
		err = framer.WriteWindowUpdate(0, 1<<30)
	}
	if err == nil {
		_, err = hello.WriteTo(nc)
	}
	return c, err
}

// headerBlocks returns the headers of a call: as the first one of a connection
// sends them, and as every other does, when the server's table holds them.
func headerBlocks() (first, other []byte) {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	encode := func() []byte {
		block.Reset()
		for _, f := range [...]hpack.HeaderField{
			{Name: ":method", Value: "POST"}, {Name: ":scheme", Value: "http"},
			{Name: ":path", Value: rlsv3.RateLimitService_ShouldRateLimit_FullMethodName},
			{Name: ":authority", Value: "ratelimit"}, {Name: "te", Value: "trailers"}, {Name: "content-type", Value: "application/grpc"},
		} {
			_ = encoder.WriteField(f) // to memory
		}
		return bytes.Clone(block.Bytes())
	}
	first = encode()
	return first, encode()
}
