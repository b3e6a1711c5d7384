package statsd

import "testing"

func TestMogrifiers(t *testing.T) {
	hits, err := NewMogrifier(`^ratelimit\.service\.rate_limit\.([^.]+)\.(.+)\.total_hits$`, "ratelimit.hits.$7", map[string]string{"domain": "$1", "rule": "$2", "all": "$0"})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := NewMogrifier("^ratelimit", "rl", nil)
	if err != nil {
		t.Fatal(err)
	}
	address, next := listenUDP(t)
	rules := compile(t, namesPolicy)
	tally := NewTally(Options{})
	ask(t, tally.Sheet(rules), rules, "sn", entriesOf("plain=v"))
	tally.UnknownDomain([]byte("x"), 1)
	run(t, tally, SenderOptions{
		Network: UDP, Address: address, Dog: true, Tags: map[string]string{"zone": "z1"}, Mogrifiers: []Mogrifier{hits, rest},
		Sources: []Source{func(tell func(Metric)) { tell(Metric{Name: "other", Value: 1, Gauge: true}) }},
	})
	const want = "ratelimit.hits.$7:1|c|#all:ratelimit.service.rate_limit.sn.plain_v.total_hits,domain:sn,rule:plain_v,zone:z1"
	if got := next("ratelimit."); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := next("other"); got != "other:1|g|#zone:z1" {
		t.Error(got)
	}
}

func TestBadMogrifiers(t *testing.T) {
	for _, row := range []struct {
		pattern, name string
		tags          map[string]string
	}{{"", "n", nil}, {"p", "", nil}, {"(", "n", nil}, {"p", "n", map[string]string{"": "v"}}, {"p", "n", map[string]string{"k": ""}}} {
		if _, err := NewMogrifier(row.pattern, row.name, row.tags); err == nil {
			t.Errorf("%+v: no error", row)
		}
	}
}

// Whatever a mogrifier makes of a name is one.
func TestMogrifiedNamesAreNames(t *testing.T) {
	for _, row := range []struct{ pattern, name, want string }{
		{"(x)?.*", "$1", "a.b"},
		{".*", "n\nm:1|c", "n_m_1_c"},
		{"(.*)", "$99999999999999999999", "$99999999999999999999"},
		{"$", "$0$0", "a.b"},
	} {
		m, err := NewMogrifier(row.pattern, row.name, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := mogrify([]Mogrifier{m}, "a.b"); got != row.want {
			t.Errorf("%q, %q: %q, want %q", row.pattern, row.name, got, row.want)
		}
	}
}
