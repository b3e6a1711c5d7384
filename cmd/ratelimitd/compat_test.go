package main

import (
	"net/http"
	"strings"
	"testing"
)

// No value of a flag is shown, whatever is a secret.
func TestCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"/bin/ratelimit":      "/bin/ratelimit",
		"ratelimitd --compat": "ratelimitd --compat",
		"ratelimitd -x=hunter2 --password hunter2 -- -y=a=": "ratelimitd -x --password -- -y",
	} {
		if got := strings.Join(commandLine(strings.Fields(args)), " "); got != want {
			t.Errorf("%s: %s, want %s", args, got, want)
		}
	}
}

// Who sets the variables of envoyproxy/ratelimit where they are not read is told so.
func TestVariablesThatAreNotRead(t *testing.T) {
	p, address := serve(t, "RUNTIME_SUBDIRECTORY=ratelimit", "REDIS_URL=redis:6379")
	eventually(t, "ready", func() bool { return healthcheck(address) == http.StatusOK })
	const line = `msg="a setting changes nothing" name=RUNTIME_SUBDIRECTORY reason="it is envoyproxy/ratelimit's`
	if log := p.Log.String(); !strings.Contains(log, line) || strings.Contains(log, "name=REDIS_URL") {
		t.Errorf("the log is\n%s", log)
	}
}

// The pages of envoyproxy/ratelimit are its own.
func TestNoReferencePages(t *testing.T) {
	p := start(t)
	for _, path := range []string{"/rlconfig", "/stats", "/no/such"} {
		if code, text := page(t, http.MethodGet, p.Admin.String()+path, ""); code != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}
