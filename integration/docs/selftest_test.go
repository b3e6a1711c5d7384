package docs

import (
	"strings"
	"testing"
)

const fence = "```"

// A page is taken apart as it is meant.
func TestParsePage(t *testing.T) {
	text := strings.Join([]string{
		"# Page", "<!-- stop -->", "<!-- varies: t=\\d+ -->", fence + "console background", "$ serve \\", "    --now", "… ready", fence,
		"  " + fence + "yaml policy file=a.yaml bad", "  domain: x", "  " + fence,
	}, "\n")
	p, err := parsePage("p.md", text)
	if err != nil || len(p.blocks) != 2 {
		t.Fatalf("%v, %d blocks", err, len(p.blocks))
	}
	first, second := p.blocks[0], p.blocks[1]
	if c := first.commands(t); len(c) != 1 || c[0].text != "serve \\\n    --now" || strings.Join(c[0].output, "|") != "… ready" {
		t.Errorf("commands %+v", c[0])
	}
	if !first.stop || len(first.varies) != 1 || second.stop || len(second.varies) != 0 {
		t.Error("comments are for the block that follows")
	}
	if second.text() != "domain: x\n" || second.value("file") != "a.yaml" || !second.has("bad") || second.at != "p.md:9" {
		t.Errorf("second block %+v", second)
	}
}

// A page that the test would misread is an error.
func TestParsePageFinds(t *testing.T) {
	for text, want := range map[string]string{
		"<!-- verify -->":             "no comment that the test knows",
		"<!-- not run -->":            "need one",
		"<!-- varies: ( -->":          "missing closing",
		fence + "console\n$ ls":       "has no end",
		"~~~\n~~~":                    "not ~~~",
		"a\n\n<!-- stop: now -->\n\n": "have a text",
	} {
		if _, err := parsePage("p.md", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// What a page shows against what a command printed.
func TestExpects(t *testing.T) {
	for _, row := range []struct {
		shown, printed string
		more, want     bool
	}{
		{"a|b", "a|b", false, true},
		{"a", "a|b", false, false},
		{"a", "a|b", true, true},
		{"a|b", "a", true, false},
		{"a…c", "abc", false, true},
		{"a…c", "a|c", false, false},
		{"a|…|d", "a|b|c|d", false, true},
		{"…|d", "d", false, true},
		{"1+1", "11", false, false},
		{"", "", false, true},
		{"", "a", false, false},
		{"Date: Tue", "date: Wed", false, true},
	} {
		split := func(s string) []string {
			if s == "" {
				return nil
			}
			return strings.Split(s, "|")
		}
		b := &block{}
		if got := b.expects(split(row.shown), row.more).MatchString(b.mask(split(row.printed))); got != row.want {
			t.Errorf("%q shown, %q printed: %v", row.shown, row.printed, got)
		}
	}
}

// Ports become others and come back; numbers that are none stay.
func TestPorts(t *testing.T) {
	s := &session{ports: map[string]string{}, back: map[string]string{}}
	for i, port := range usualPorts {
		s.ports[port], s.back["2000"+string(rune('0'+i%10))+port[:1]] = "2000"+string(rune('0'+i%10))+port[:1], port
	}
	for text, changes := range map[string]bool{
		"curl localhost:8080/json":                true,
		"redis://127.0.0.1:6379/0":                true,
		"port_value: 10000}":                      true,
		`{"port_value":8081}`:                     true,
		"RATELIMITD_GRPC_ADDRESS=:8081":           true,
		`grpc_address: ":8081"`:                   true,
		"redis-server --port 6379":                true,
		"(: </dev/tcp/127.0.0.1/8081)":            true,
		`{"requestsPerUnit":10000}`:               false,
		"requests_per_unit: 10000":                false,
		"grpcurl -d '{\"hits\": 8080}'":           false,
		"curl localhost:18080 and localhost:8088": false,
	} {
		here := s.here(text)
		if (here != text) != changes || s.there(here) != text {
			t.Errorf("%s: here %s, back %s", text, here, s.there(here))
		}
	}
}
