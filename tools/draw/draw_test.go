package main

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The pictures in the tree are those that the code draws now: no change to an
// algorithm leaves a picture behind that shows something else.
func TestPicturesAreUpToDate(t *testing.T) {
	drawn, err := pictures()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range drawn {
		got, err := os.ReadFile(filepath.Join("../..", folder, name))
		if err != nil || string(got) != want {
			t.Errorf("%s is not what would be drawn now (%v): run `go run ./tools/draw` and look at it", name, err)
		}
	}
	files, err := filepath.Glob(filepath.Join("../..", folder, "*"))
	files = slices.DeleteFunc(files, func(path string) bool {
		return strings.HasPrefix(filepath.Base(path), "performance-") // by tools/load
	})
	if err != nil || len(files) != len(drawn) {
		t.Errorf("%s holds %d files, want the %d pictures (%v)", folder, len(files), len(drawn), err)
	}
}

// A browser draws nothing of a picture that is not well-formed.
func TestPicturesAreWellFormed(t *testing.T) {
	drawn, err := pictures()
	if err != nil {
		t.Fatal(err)
	}
	for name, svg := range drawn {
		decoder := xml.NewDecoder(strings.NewReader(svg))
		for err == nil {
			_, err = decoder.Token()
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: %v", name, err)
		}
		err = nil
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "%!") {
			t.Errorf("%s holds a number or a text that is none", name)
		}
	}
}

// Every request of the traffic is decided, on a frame of the pictures.
func TestTrafficIsPlayedInFull(t *testing.T) {
	for _, at := range arrivals() {
		if at%frame != 0 || at >= shown {
			t.Errorf("a request at %v falls on no frame", at)
		}
	}
}
