package compat

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// ratelimitdPath is the binary that TestMain built; it does not change after.
var ratelimitdPath string

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most of them wait for clocks
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
	os.Exit(programtest.Main(m, &ratelimitdPath, false))
}
