// Command draw draws the pictures of docs/algorithms.md.
//
// Each picture shows one algorithm deciding the same traffic. Nothing in it is
// drawn by hand: the traffic is played through algorithm.Decide with a clock
// that is a number, and what came out is what is drawn.
//
// Run it from the module's folder, `go run ./tools/draw`; a test tells when the
// pictures in docs/img are not what it would write now.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

const folder = "docs/img"

func main() {
	if err := write(folder); err != nil {
		fmt.Fprintln(os.Stderr, "draw:", err)
		os.Exit(1)
	}
}

// write writes all pictures into a folder.
func write(folder string) error {
	drawn, err := pictures()
	if err != nil {
		return err
	}
	for name, svg := range drawn {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(svg), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// pictures draws one picture for each algorithm and one that compares them, by
// the names of their files.
func pictures() (map[string]string, error) {
	drawn := make(map[string]string)
	var runs []*run
	for _, a := range algorithm.All {
		r, err := play(a)
		if err != nil {
			return nil, err
		}
		runs = append(runs, r)
		drawn[a.Name+".svg"] = drawAlgorithm(r)
	}
	drawn["compared.svg"] = drawCompared(runs)
	return drawn, nil
}
