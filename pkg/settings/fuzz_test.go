package settings

import (
	"strings"
	"testing"
)

// FuzzFile: whatever the file holds, each of its lines is a setting or a fault
// that says where it is, and no fault shows a secret.
func FuzzFile(f *testing.F) {
	f.Add(Sample()[:400]) // the fuzzer would spend a minute on making the whole smaller
	f.Add("store: redis\nstor: 1\nbody: &a [x]\nredis_url: *a\n")
	f.Add("- a\n---\nb: c")
	f.Add("<<: {store: redis}\n? [store]\n: x")
	const secret = "vErYsEcReT"
	f.Fuzz(func(t *testing.T, text string) {
		s := &Settings{}
		rows := table(s)
		faults := &ErrorList{}
		values := parseFile("f.yaml", []byte("redis_password: "+secret+"\n"+text), rows, faults)
		for name, value := range values {
			if row := find(rows, name); row == nil || row.FileLess || value.line < 1 {
				t.Errorf("took %s as a setting, in line %d", name, value.line)
			} else if problem := row.parse(value.text); problem != "" {
				faults.add("f.yaml", problem)
			}
		}
		if strings.Contains(faults.Error(), secret) {
			t.Errorf("shows the secret: %v", faults)
		}
		for _, fault := range faults.Errors {
			if !strings.HasPrefix(fault.Where, "f.yaml") || fault.Problem == "" {
				t.Errorf("a fault that says nothing: %+v", fault)
			}
		}
	})
}
