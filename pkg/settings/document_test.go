package settings

import (
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the sample file and the reference page anew")

func TestWrittenPagesAreUpToDate(t *testing.T) {
	for path, want := range map[string]string{
		"../../config/ratelimitd.yaml": Sample(),
		"../../docs/settings.md":       Reference(),
	} {
		if *update {
			write(t, path, want)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != want {
			t.Errorf("%s is not what the table says (%v); run go test ./pkg/settings -update", path, err)
		}
	}
}

func TestTheSampleIsTheDefaults(t *testing.T) {
	got, err := load(t, Sample(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range got.Values() {
		if v.Name != "config" && !strings.HasPrefix(v.Origin, "config/ratelimitd.yaml:") {
			t.Errorf("%s is not in the sample", v.Name)
		}
	}
	if got.origins = nil; !reflect.DeepEqual(got, Default()) {
		t.Errorf("the sample gives %+v, not %+v", got, Default())
	}
}

func TestHelpNamesEverySetting(t *testing.T) {
	help := newFlags().FlagUsages()
	for _, row := range All() {
		if !strings.Contains(help, "--"+row.Flag()) || !strings.Contains(help, row.Env()) {
			t.Errorf("help lacks %s:\n%s", row.Name, help)
		}
	}
}
