package compat

import (
	"flag"
	"os"
	"testing"
)

var update = flag.Bool("update", false, "write docs/compatibility.md anew")

func TestPage(t *testing.T) {
	const file = "../../docs/compatibility.md"
	if *update {
		if err := os.WriteFile(file, []byte(Page()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != Page() {
		t.Errorf("%s is not made from the table as it is (go test -update writes it anew)", file)
	}
}

func TestDifferencesSayHow(t *testing.T) {
	for _, d := range Differences() {
		if d.What == "" || (d.Fate == Same) != (d.How == "") {
			t.Errorf("%+v", d)
		}
	}
}
