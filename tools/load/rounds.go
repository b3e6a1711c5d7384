package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"
)

// row is a load whose cost is told, and compared with that of others.
type row struct {
	Name    string   `json:"name"`
	Title   string   `json:"title"`
	Server  string   `json:"server"`
	Samples []sample `json:"samples"` // one of each round

	key               string // of the descriptors
	keys, descriptors int
	streams           int     // in flight on each of two connections
	part              float64 // of the requests that others get, for slow ones
}

// The loads, by name.
const (
	rowFrames   = "frame_floor"
	rowGRPC     = "grpc_floor"
	rowMemory   = "memory"
	rowRedis    = "redis"
	rowHot      = "redis_hot"
	rowOver     = "redis_over"
	rowThree    = "redis_three"
	rowFewFloor = "few_frame_floor"
	rowFew      = "few_redis"
	rowFewApart = "few_apart"
)

const (
	connections = 2      // as of an Envoy with two workers
	manyStreams = 64     // in flight on each, of a proxy that is busy
	fewStreams  = 4      // in flight on each, of one that is not
	manyKeys    = 10_000 // that are asked for, unless it is one
)

// rows returns the loads without samples.
func rows() []*row {
	many := func(name, title, server string) *row {
		return &row{Name: name, Title: title, Server: server, key: ample, keys: manyKeys, descriptors: 1, streams: manyStreams, part: 1}
	}
	few := func(name, title, server string) *row {
		r := many(name, title, server)
		r.streams, r.part = fewStreams, .5
		return r
	}
	grpc := many(rowGRPC, "grpc-go floor", grpcFloorServer)
	grpc.part = .4
	hot := many(rowHot, "Redis, one hot key", redisServer)
	hot.keys = 1
	over := many(rowOver, "Redis, key over its limit", redisServer)
	over.key, over.keys = spent, 1
	three := many(rowThree, "Redis, 3 descriptors", redisServer)
	three.descriptors, three.part = 3, .5
	apart := few(rowFewApart, "grpc-go, a script call each, 2 × 4", apartServer)
	apart.part = .2
	return []*row{
		many(rowFrames, "frame floor", frameFloorServer),
		grpc,
		many(rowMemory, "memory", memoryServer),
		many(rowRedis, "Redis", redisServer),
		hot, over, three,
		few(rowFewFloor, "frame floor, 2 × 4", frameFloorServer),
		few(rowFew, "Redis, 2 × 4", redisServer),
		apart,
	}
}

// floor returns the row of the frame floor under a row's load.
func (r *run) floor(of *row) *row {
	if strings.HasPrefix(of.Name, "few_") {
		return r.row(rowFewFloor)
	}
	return r.row(rowFrames)
}

// load returns the row's load of a number of requests.
func (r *row) load(count int) load {
	return load{
		requests: encodeRequests(r.key, r.keys, r.descriptors), count: int(float64(count) * r.part),
		connections: connections, streams: r.streams,
	}
}

// measureRows measures all rows in turn, as many times as there are rounds, so
// that what else the machine does meets all of them alike.
func (b *bench) measureRows(ctx context.Context, all []*row) error {
	for _, r := range all {
		warm, err := b.measure(ctx, r.Server, r.load(b.options.requests/4))
		if err != nil {
			return err
		}
		if warm.Failed == warm.Requests {
			return fmt.Errorf("%s: every call failed: %s", r.Title, warm.Failure)
		}
	}
	for round := range b.options.rounds {
		progress("round %d of %d", round+1, b.options.rounds)
		for _, r := range all {
			s, err := b.measure(ctx, r.Server, r.load(b.options.requests))
			if err != nil {
				return err
			}
			r.Samples = append(r.Samples, s)
		}
	}
	return nil
}

// progress tells who waits what is being done.
func progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %s\n", time.Now().Format(time.TimeOnly), strings.TrimSpace(fmt.Sprintf(format, args...)))
}
