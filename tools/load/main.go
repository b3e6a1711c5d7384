// Command load measures what a decision costs: it starts ratelimitd, Redis and
// servers that decide nothing, loads each of them in turn, and tells the
// processor's time and the latency of a request, in microseconds and as ratios.
//
//	load -server bin/ratelimitd -out bin/load
//
// What belongs together stands in files of its own:
//
//	client.go, send.go, receive.go, request.go   the generator of load
//	framefloor.go, grpcfloor.go, apart.go        servers to compare with
//	process.go, bench.go, policy.go, others.go   what is started, and what else runs
//	rounds.go, paced.go, start.go, keys.go, profile.go   what is measured
//	run.go, report.go, targets.go, picture.go    what is told of it
//
// docs/performance.md says how to read it. Everything stays on loopback, and
// every load has an end.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
)

// options say how much to measure.
type options struct {
	server    string // the binary of ratelimitd
	out       string // folder for what is written
	algorithm string // of the limits that are asked for
	profiles  string // folder for profiles; empty: none are taken

	rounds   int
	requests int // of each closed load in a round
	keys     int // how many counters live at a time when their size is measured
}

func main() {
	if len(os.Args) > 2 {
		if role, ok := roles[os.Args[1]]; ok {
			exit(role(os.Args[2], os.Args[3:]))
			return
		}
	}
	var o options
	flag.StringVar(&o.server, "server", "bin/ratelimitd", "the `binary` of ratelimitd")
	flag.StringVar(&o.out, "out", "bin/load", "`folder` for run.json, report.md and the picture")
	flag.StringVar(&o.algorithm, "algorithm", "token_bucket", "`name` of the limits' algorithm")
	flag.StringVar(&o.profiles, "profiles", "", "`folder` for processor profiles of the server; empty takes none")
	flag.IntVar(&o.rounds, "rounds", 5, "how often everything is measured; medians are told")
	flag.IntVar(&o.requests, "requests", 200_000, "requests of a load in each round")
	flag.IntVar(&o.keys, "keys", 1_000_000, "counters that live at a time when their size is measured; 0 leaves that out")
	from := flag.String("from", "", "measure nothing, and tell of the run in this `file`")
	flag.Parse()
	if flag.NArg() > 0 || o.rounds < 1 || o.requests < 1000 {
		exit(errors.New("there are no arguments but flags; at least 1 round and 1000 requests"))
	}
	ctx, cancel := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer cancel()
	exit(tell(ctx, o, *from))
}

// roles are the servers to compare with. The program starts itself again for
// each, since the processor's time is told by process.
var roles = map[string]func(address string, rest []string) error{
	"frame-floor": serveFrameFloor,
	"grpc-floor":  serveGRPCFloor,
	"apart":       serveApart,
}

func exit(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		os.Exit(1)
	}
}

// tell measures, or reads what was measured before, and writes of it.
func tell(ctx context.Context, o options, from string) error {
	var r *run
	var err error
	if from != "" {
		r, err = readRun(from)
	} else {
		r, err = measure(ctx, o)
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(o.out, 0o750); err != nil {
		return err
	}
	report := r.report()
	fmt.Print(report)
	return cmp.Or(
		r.write(filepath.Join(o.out, "run.json")),
		os.WriteFile(filepath.Join(o.out, "report.md"), []byte(report), 0o600),
		os.WriteFile(filepath.Join(o.out, "performance-load.svg"), []byte(r.picture()), 0o600),
	)
}
