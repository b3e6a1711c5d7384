package algorithm

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden histories in testdata")

// A history is a text of steps and what they were answered:
//
//	limit NAME: 3 per 10s token_bucket [burst 5] [overdraw]
//	counting reference, or only_over
//	at 9.5s: charge NAME [HITS] [and …], look NAME, give NAME 2, force NAME 2 [xN] => answers
//
// All asks of a line are one request; xN repeats it, and equal answers in a row
// are told once.
type history struct {
	limits   map[string]*Limit
	states   map[string]*State
	counting Counting
	epoch    int64
}

// TestHistories replays the histories in testdata. Run with -update to rewrite
// the answers, and read the difference.
func TestHistories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal("no histories in testdata", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := replay(t, want)
			if *update {
				err = os.WriteFile(file, got, 0o600)
				if err != nil {
					t.Fatal(err)
				}
			} else if !bytes.Equal(got, want) {
				t.Errorf("%s answers otherwise:\n%s", file, difference(string(want), string(got)))
			}
		})
	}
}

func replay(t *testing.T, text []byte) []byte {
	var out bytes.Buffer
	h := history{limits: map[string]*Limit{}, states: map[string]*State{}}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line, _, _ := strings.Cut(lines.Text(), " => ")
		switch {
		case strings.HasPrefix(line, "limit "):
			h.limit(t, line)
		case strings.HasPrefix(line, "counting reference"):
			h.counting = Reference
		case strings.HasPrefix(line, "counting only_over"):
			h.counting = OnlyOver
		case strings.HasPrefix(line, "at "):
			line += " => " + h.step(t, line)
		}
		fmt.Fprintln(&out, line)
	}
	return out.Bytes()
}

func (h *history) limit(t *testing.T, line string) {
	var name, window, algorithm string
	spec := Spec{}
	if _, err := fmt.Sscanf(line, "limit %s %d per %s %s", &name, &spec.Requests, &window, &algorithm); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	spec.Algorithm, spec.Overdraw = algorithm, strings.Contains(line, "overdraw")
	if _, after, ok := strings.Cut(line, "burst "); ok {
		spec.Burst, _ = strconv.ParseUint(strings.Fields(after)[0], 10, 32)
	}
	var err error
	if spec.Window, err = time.ParseDuration(window); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	if h.limits[strings.TrimSuffix(name, ":")], err = NewLimit(spec); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
}

// step decides a line's request as often as it says.
func (h *history) step(t *testing.T, line string) string {
	at, rest, _ := strings.Cut(strings.TrimPrefix(line, "at "), ": ")
	now, err := time.ParseDuration(at)
	if err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	times := 1
	if i := strings.LastIndex(rest, " x"); i > 0 {
		if times, err = strconv.Atoi(rest[i+2:]); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		rest = rest[:i]
	}
	asks, states := h.asks(t, line, rest)
	var said []string
	for range times {
		out := make([]Decision, len(asks))
		Decide(h.epoch+now.Microseconds(), asks, states, out)
		var b strings.Builder
		for i, d := range out {
			if i > 0 {
				b.WriteString(" | ")
			}
			b.WriteString(show(d, asks[i].Limit))
		}
		said = append(said, b.String())
	}
	return runs(said)
}

func (h *history) asks(t *testing.T, line, text string) (asks []Ask, states []*State) {
	for part := range strings.SplitSeq(text, ", ") {
		words := strings.Fields(part)
		limit := h.limits[words[1]]
		if limit == nil {
			t.Fatalf("%q: no limit %q", line, words[1])
		}
		a := Ask{Limit: limit, Hits: 1, Counting: h.counting}
		for _, word := range words[2:] {
			switch n, err := strconv.ParseInt(word, 10, 64); {
			case word == "shadow":
				a.Shadow = true
			case word == "quota":
				a.Quota = true
			case err != nil:
				t.Fatalf("%q: %v", line, err)
			default:
				a.Hits = n
			}
		}
		switch words[0] {
		case "look":
			a.Hits = 0
		case "give":
			a.Mode = GiveBack
		case "force":
			a.Mode = Forced
		case "charge":
		default:
			t.Fatalf("%q: what is %q?", line, words[0])
		}
		if h.states[words[1]] == nil {
			h.states[words[1]] = &State{}
		}
		asks, states = append(asks, a), append(states, h.states[words[1]])
	}
	return asks, states
}

// show tells a decision: what it was, what is used now, and the waits.
func show(d Decision, l *Limit) string {
	text := fmt.Sprintf("%v %d/%d", d.Outcome, d.After, l.Capacity)
	switch {
	case d.Never:
		text += " never"
	case d.Outcome == Denied:
		text += fmt.Sprintf(" retry %v", d.RetryAfter)
	}
	if d.Delay > 0 {
		text += fmt.Sprintf(" delay %v", d.Delay)
	}
	return text
}

// runs tells equal neighbours once. What is used is told of the last of them.
func runs(said []string) string {
	outcome := func(s string) string { word, _, _ := strings.Cut(s, " "); return word }
	var parts []string
	for i := 0; i < len(said); {
		j := i
		for j+1 < len(said) && outcome(said[j+1]) == outcome(said[i]) {
			j++
		}
		if j > i {
			parts = append(parts, fmt.Sprintf("%d x, then %s", j-i, said[j]))
		} else {
			parts = append(parts, said[j])
		}
		i = j + 1
	}
	return strings.Join(parts, "; ")
}

func difference(want, got string) string {
	var b strings.Builder
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range max(len(w), len(g)) {
		line := func(s []string) string {
			if i < len(s) {
				return s[i]
			}
			return ""
		}
		if line(w) != line(g) {
			fmt.Fprintf(&b, "line %d\n  want %s\n  got  %s\n", i+1, line(w), line(g))
		}
	}
	return b.String()
}
