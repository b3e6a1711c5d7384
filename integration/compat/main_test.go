package compat

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// binaries is the folder with the binary under all its names; it does not change after TestMain.
var binaries string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil { // most of them wait for clocks
		fmt.Fprintln(os.Stderr, "compat:", err)
		return 1
	}
	dir, err := os.MkdirTemp("", "ratelimitd-compat")
	if err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		return 1
	}
	defer os.RemoveAll(dir)
	binaries = dir
	if out, err := exec.Command("go", "build", "-o", filepath.Join(dir, "ratelimitd"), "../../cmd/ratelimitd").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "compat: building ratelimitd: %v\n%s", err, out)
		return 1
	}
	for _, name := range []string{"ratelimit", "ratelimit_config_check", "ratelimit_client"} {
		if err := os.Symlink("ratelimitd", filepath.Join(dir, name)); err != nil {
			fmt.Fprintln(os.Stderr, "compat:", err)
			return 1
		}
	}
	return m.Run()
}
