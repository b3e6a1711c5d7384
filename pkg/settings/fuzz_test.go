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

// FuzzFlags reads any command line: it ends, with faults that say where and show
// no secret.
func FuzzFlags(f *testing.F) {
	f.Add("--store=redis\n--redis-pool-size\n3")
	f.Add("--stor\nx\n--\n-h\n--help=maybe")
	f.Add("-redis-password=vErYsEcReT\nredis_password=vErYsEcReT\n--redis-passwrd=vErYsEcReT")
	f.Add("=\n--=\n---\n-=x\n--store")
	f.Fuzz(func(t *testing.T, text string) {
		flags := newFlags()
		faults, _ := ParseFlags(flags, strings.Split(text, "\n"))
		for _, fault := range faults {
			if fault.Where == "" || fault.Problem == "" {
				t.Errorf("%q: a fault that says nothing: %+v", text, fault)
			}
		}
		s := &Settings{}
		for _, row := range table(s) {
			if flag := flags.Lookup(row.Flag()); flag.Changed {
				checkValue(t, s, &row, flag.Value.String())
			}
		}
	})
}

// FuzzValues gives every setting the value, and the environment the name.
func FuzzValues(f *testing.F) {
	for _, row := range All() {
		f.Add(row.Env(), row.Default)
	}
	for _, value := range []string{"9999999999999999999", "-1", "0x10", "1e9", "5GiB", "2147483648KiB", "NaN", "1h1h", "292471h", "[::1%lo]:1", ":", "\xff", " ", "true\n"} {
		f.Add("RATELIMITD_X", value)
	}
	f.Fuzz(func(t *testing.T, name, value string) {
		faults := &ErrorList{}
		rows := table(&Settings{})
		checkEnvironment([]string{name + "=" + value}, rows, faults)
		for _, fault := range faults.Errors {
			if !strings.HasPrefix(fault.Where, envPrefix) || fault.Problem == "" {
				t.Errorf("%s: %+v", name, fault)
			}
		}
		s := &Settings{}
		for _, row := range table(s) {
			checkValue(t, s, &row, value)
		}
	})
}

// checkValue: a value that a setting takes is within its bounds, and is shown as
// something that means the same.
func checkValue(t *testing.T, s *Settings, row *Setting, value string) {
	t.Helper()
	if row.parse(value) != "" {
		return
	}
	shown := row.current()
	if n, ok := row.number(shown); ok {
		if least, bounded := row.number(row.Min); bounded && n < least {
			t.Errorf("%s: %q is below %s", row.Name, value, row.Min)
		}
		if most, bounded := row.number(row.Max); bounded && n > most {
			t.Errorf("%s: %q is above %s", row.Name, value, row.Max)
		}
	}
	switch row.Kind() {
	case "secret", "url":
		return // masked
	}
	if problem := row.parse(shown); problem != "" || row.current() != shown {
		t.Errorf("%s: %q is shown as %q, which is %q: %s", row.Name, value, shown, row.current(), problem)
	}
}
