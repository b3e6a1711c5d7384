// Command gotest runs `go test` so that a person can read it and a skipped
// test cannot hide: it prints one line a package as it ends, the output of
// what failed, and totals, and exits with 1 if a test failed or was skipped,
// or if none ran.
//
// Its arguments are those of `go test`.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// event is one line of `go test -json`; see `go doc test2json`.
type event struct {
	Action     string
	Package    string
	ImportPath string // of build output
	Test       string
	Output     string
}

// report collects what the events of one run tell.
type report struct {
	out                     io.Writer
	output                  map[string]*strings.Builder // of each package or test, until it is known how it ended
	passed, failed, skipped int
}

func main() {
	cmd := exec.Command("go", append([]string{"test", "-json"}, os.Args[1:]...)...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "gotest:", err)
		os.Exit(1)
	}
	r := report{out: os.Stdout, output: map[string]*strings.Builder{}}
	r.read(stdout)
	err = cmd.Wait()
	fmt.Printf("%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if err != nil || !r.good() {
		os.Exit(1)
	}
}

// good says whether tests ran and every one of them passed.
func (r *report) good() bool { return r.passed > 0 && r.failed == 0 && r.skipped == 0 }

// read takes in events until the end. A line that is not an event is shown.
func (r *report) read(from io.Reader) {
	lines := bufio.NewScanner(from)
	lines.Buffer(nil, 1<<24) // a failing test may print a long line
	for lines.Scan() {
		var e event
		if json.Unmarshal(lines.Bytes(), &e) != nil {
			fmt.Fprintln(r.out, lines.Text())
			continue
		}
		r.add(e)
	}
	if err := lines.Err(); err != nil {
		fmt.Fprintln(r.out, "gotest: reading events:", err)
		r.failed++
	}
}

// add takes in one event.
func (r *report) add(e event) {
	name := e.Package + " " + e.Test
	switch e.Action {
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "output":
		r.keep(name, e)
	case "pass", "fail", "skip":
		if e.Test != "" {
			r.count(e.Action)
		}
		if held := r.output[name]; held != nil && (e.Action == "fail" || e.Action == "skip" && e.Test != "") {
			fmt.Fprint(r.out, held)
		}
		delete(r.output, name)
	}
}

// keep holds a line back until its test has ended, but shows at once the line
// with which `go test` closes a package.
func (r *report) keep(name string, e event) {
	closing := strings.HasPrefix(e.Output, "ok  \t") || strings.HasPrefix(e.Output, "FAIL\t")
	if e.Test == "" && closing {
		fmt.Fprint(r.out, e.Output)
		return
	}
	if r.output[name] == nil {
		r.output[name] = &strings.Builder{}
	}
	r.output[name].WriteString(e.Output)
}

func (r *report) count(action string) {
	switch action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
	case "skip":
		r.skipped++
	}
}
