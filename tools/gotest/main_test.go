package main

import (
	"strings"
	"testing"
)

// Each row is a run as `go test -json` tells it, and what a person is shown.
func TestReport(t *testing.T) {
	tests := []struct {
		name   string
		events string
		shown  string
		good   bool
	}{
		{
			"a passing test says nothing, its package one line",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"=== RUN TestA\n"}
			 {"Action":"pass","Package":"p","Test":"TestA"}
			 {"Action":"output","Package":"p","Output":"PASS\n"}
			 {"Action":"output","Package":"p","Output":"ok  \tp\t0.1s\n"}
			 {"Action":"pass","Package":"p"}`,
			"ok  \tp\t0.1s\n", true,
		}, {
			"a failing test shows its output",
			`{"Action":"output","Package":"p","Test":"TestA","Output":"a.go:1: got 1\n"}
			 {"Action":"output","Package":"p","Test":"TestB","Output":"b.go:1: fine\n"}
			 {"Action":"pass","Package":"p","Test":"TestB"}
			 {"Action":"fail","Package":"p","Test":"TestA"}
			 {"Action":"output","Package":"p","Output":"FAIL\tp\t0.1s\n"}
			 {"Action":"fail","Package":"p"}`,
			"a.go:1: got 1\nFAIL\tp\t0.1s\n", false,
		}, {
			"a skipped test is not a good run",
			`{"Action":"pass","Package":"p","Test":"TestB"}
			 {"Action":"output","Package":"p","Test":"TestA","Output":"no server\n"}
			 {"Action":"skip","Package":"p","Test":"TestA"}`,
			"no server\n", false,
		}, {
			"a package without test files is no skipped test",
			`{"Action":"output","Package":"q","Output":"?   \tq\t[no test files]\n"}
			 {"Action":"skip","Package":"q"}
			 {"Action":"pass","Package":"p","Test":"TestA"}`,
			"", true,
		}, {
			"a package that dies outside a test shows why",
			`{"Action":"pass","Package":"p","Test":"TestA"}
			 {"Action":"output","Package":"p","Output":"panic: no\n"}
			 {"Action":"fail","Package":"p"}`,
			"panic: no\n", true, // by the counts; the exit status of go test says no
		}, {
			"nothing ran", ``, "", false,
		}, {
			"a line that is no event is shown", `go: warning`, "go: warning\n", false,
		},
	}
	for _, test := range tests {
		var shown strings.Builder
		r := report{out: &shown, output: map[string]*strings.Builder{}}
		r.read(strings.NewReader(test.events))
		if shown.String() != test.shown || r.good() != test.good {
			t.Errorf("%s: shown %q, good %v; want %q, %v", test.name, shown.String(), r.good(), test.shown, test.good)
		}
	}
}
