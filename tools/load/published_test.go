package main

import (
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write what the run in testdata tells into the page and the picture")

const (
	published = "testdata/run.json" // the run of which the page tells
	page      = "../../docs/performance.md"
	pictured  = "../../docs/img/performance-load.svg"
)

// The page and its picture show the run in testdata, and no figure that was
// written by hand.
func TestThePageShowsTheRun(t *testing.T) {
	r, err := readRun(published)
	if err != nil {
		t.Fatal(err)
	}
	text := read(t, page)
	want := text
	for table := range strings.SplitSeq(r.report(), "\n\n") {
		if want, err = replaceTable(want, strings.TrimSpace(table)); err != nil {
			t.Error(err)
		}
	}
	if *update {
		write(t, page, want)
		write(t, pictured, r.picture())
		return
	}
	if text != want {
		t.Errorf("%s does not show %s: run go test ./tools/load -update, and read the difference", page, published)
	}
	if read(t, pictured) != r.picture() {
		t.Errorf("%s does not show %s: run go test ./tools/load -update, and look at it", pictured, published)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// replaceTable puts a table in the place of the one in a text that begins with
// the same columns.
func replaceTable(text, table string) (string, error) {
	lines := strings.Split(text, "\n")
	head := strings.Fields(strings.SplitN(table, "\n", 2)[0])
	for i, line := range lines {
		if strings.Join(strings.Fields(line), " ") != strings.Join(head, " ") {
			continue
		}
		end := i
		for end < len(lines) && strings.HasPrefix(lines[end], "|") {
			end++
		}
		return strings.Join(append(append(lines[:i:i], table), lines[end:]...), "\n"), nil
	}
	return text, errors.New("the page has no table with the columns " + strings.Join(head, " "))
}

// A browser draws nothing of a picture that is not well-formed.
func TestThePictureIsWellFormed(t *testing.T) {
	r, err := readRun(published)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range []*run{r, {Curves: []*curve{{Server: memoryServer, Points: [][]sample{{{Offered: 1000, P99: 3}}}}}}} {
		svg := r.picture()
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for err == nil {
			_, err = decoder.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Error(err)
		}
		err = nil
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || strings.Contains(svg, "%!") {
			t.Error("the picture holds a number or a text that is none")
		}
	}
}
