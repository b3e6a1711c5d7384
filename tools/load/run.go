package main

import (
	"bufio"
	"bytes"
	"context"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"
)

// run is all that was measured in one run of the program.
type run struct {
	Machine   machine    `json:"machine"`
	Began     time.Time  `json:"began"`
	Seconds   float64    `json:"seconds"`
	Rounds    int        `json:"rounds"`
	Requests  int        `json:"requests"`
	Algorithm string     `json:"algorithm"`
	Keys      int        `json:"keys"`
	Rows      []*row     `json:"rows"`
	Pairs     []*pair    `json:"half_rate"`
	Curves    []*curve   `json:"curves"`
	Starts    []*starts  `json:"starts"`
	KeySizes  []*keySize `json:"key_sizes"`
}

// machine is where it was measured, and what else went on there.
type machine struct {
	Cores      int       `json:"cores"`
	Processor  string    `json:"processor"`
	Kernel     string    `json:"kernel"`
	Go         string    `json:"go"`
	Redis      string    `json:"redis"`
	Ratelimitd string    `json:"ratelimitd"`
	LoadBefore []float64 `json:"load_before"` // the averages of 1, 5 and 15 minutes
	LoadAfter  []float64 `json:"load_after"`
	Others     others    `json:"others"`
}

// measure measures everything.
func measure(ctx context.Context, o options) (*run, error) {
	r := &run{Began: time.Now().UTC(), Rounds: o.rounds, Requests: o.requests, Algorithm: o.algorithm, Keys: o.keys, Rows: rows()}
	var err error
	if r.Machine, err = describe(o); err != nil {
		return nil, err
	}
	b, err := newBench(ctx, o)
	if err != nil {
		return nil, err
	}
	defer b.close()
	others := &r.Machine.Others
	if others.Rows, err = b.besides(func() error { return b.measureRows(ctx, r.Rows) }); err != nil {
		return nil, err
	}
	if others.Pairs, err = b.besides(func() (err error) {
		r.Pairs, err = b.measurePairs(ctx, r.Rows)
		return err
	}); err != nil {
		return nil, err
	}
	if others.Curves, err = b.besides(func() (err error) {
		r.Curves, err = b.measureCurves(ctx, r.Rows)
		return err
	}); err != nil {
		return nil, err
	}
	if o.profiles != "" {
		if err := b.profile(ctx, r.Rows); err != nil {
			return nil, err
		}
	}
	if r.Starts, err = b.measureStarts(ctx); err != nil {
		return nil, err
	}
	if r.KeySizes, err = b.measureKeys(ctx); err != nil {
		return nil, err
	}
	r.Machine.LoadAfter = loadAverages()
	r.Seconds = time.Since(r.Began).Seconds()
	return r, nil
}

// describe says what the machine is.
func describe(o options) (machine, error) {
	m := machine{Cores: runtime.NumCPU(), Processor: "unknown", Go: runtime.Version(), LoadBefore: loadAverages()}
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		lines := bufio.NewScanner(bytes.NewReader(text))
		for lines.Scan() {
			if name, v, _ := strings.Cut(lines.Text(), ":"); strings.TrimSpace(name) == "model name" {
				m.Processor = strings.TrimSpace(v)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel, _, _ = strings.Cut(strings.TrimSpace(string(text)), "-") // what follows names a build
	}
	text, err := exec.Command("redis-server", "--version").Output()
	if err != nil {
		return m, fmt.Errorf("redis-server: %w", err)
	}
	for word := range strings.FieldsSeq(string(text)) {
		if v, found := strings.CutPrefix(word, "v="); found {
			m.Redis = v
		}
	}
	if text, err = exec.Command(o.server, "version").Output(); err != nil {
		return m, fmt.Errorf("%s: %w", o.server, err)
	}
	m.Ratelimitd = strings.TrimSpace(string(text))
	m.Ratelimitd += revision(o.server)
	return m, nil
}

// revision says of which sources a program was built, as far as it knows.
func revision(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return ""
	}
	revision, modified := "", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = ", revision " + s.Value[:min(12, len(s.Value))]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	return revision + modified
}

// loadAverages are those of 1, 5 and 15 minutes.
func loadAverages() []float64 {
	var l [3]float64
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &l[0], &l[1], &l[2])
	}
	return l[:]
}

// row returns the row of a name.
func (r *run) row(name string) *row {
	for _, row := range r.Rows {
		if row.Name == name {
			return row
		}
	}
	return &row{}
}

// median returns the median of a figure of samples; 0 if there are none.
func median[S any](samples []S, figure func(S) float64) float64 {
	if len(samples) == 0 {
		return 0
	}
	figures := make([]float64, len(samples))
	for i, s := range samples {
		figures[i] = figure(s)
	}
	slices.Sort(figures)
	return (figures[(len(figures)-1)/2] + figures[len(figures)/2]) / 2
}

// write writes all that was measured.
func (r *run) write(path string) error {
	text, err := json.MarshalIndent(r, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o600)
}

// readRun reads what write wrote.
func readRun(path string) (*run, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	r := new(run)
	if err := json.Unmarshal(text, r); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return r, nil
}
