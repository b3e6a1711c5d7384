package web

import (
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWhoMaySeeTheAdminPages: each row is one request.
func TestWhoMaySeeTheAdminPages(t *testing.T) {
	const token = "correct-horse-battery"
	for _, test := range []struct {
		name    string
		token   string
		secured bool
		host    string
		headers string // name: value, one a line
		code    int
	}{
		{"no token, localhost", "", false, "localhost:6070", "", 200},
		{"no token, localhost by a forwarded port", "", false, "LOCALHOST.:16070", "", 200},
		{"no token, an address of loopback", "", false, "127.1.2.3", "", 200},
		{"no token, IPv6", "", false, "[::1]:6070", "", 200},
		{"no token, IPv6 without a port", "", false, "[::1]", "", 200},
		{"no token, IPv4 in IPv6", "", false, "[::ffff:127.0.0.1]:6070", "", 200},
		{"no token, another site's name made to lead here", "", false, "evil.example:6070", "", 421},
		{"no token, a name that begins alike", "", false, "localhost.evil.example", "", 421},
		{"no token, an address that is none of loopback", "", false, "10.0.0.1:6070", "", 421},
		{"no token, no host", "", false, "", "", 421},
		{"no token, rubbish", "", false, "a:b:c", "", 421},
		{"certificates, another name", "", true, "admin.internal:6070", "", 200},
		{"the token", token, false, "admin.internal:6070", "Authorization: Bearer " + token, 200},
		{"the token, small letters", token, false, "localhost", "Authorization: bearer  " + token + " ", 200},
		{"no token where one is needed", token, false, "localhost", "", 401},
		{"certificates and no token", token, true, "localhost", "", 401},
		{"a wrong token", token, false, "localhost", "Authorization: Bearer " + token + "x", 401},
		{"the beginning of the token", token, false, "localhost", "Authorization: Bearer correct", 401},
		{"an empty token", token, false, "localhost", "Authorization: Bearer ", 401},
		{"another scheme", token, false, "localhost", "Authorization: Basic " + token, 401},
		{"no scheme", token, false, "localhost", "Authorization: " + token, 401},
		{"a picture on another site's page", "", false, "localhost", "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: no-cors\nSec-Fetch-Dest: image", 403},
		{"a frame on another port's page", "", false, "localhost", "Sec-Fetch-Site: same-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: iframe", 403},
		{"a link on another site's page", "", false, "localhost", "Sec-Fetch-Site: cross-site\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document", 200},
		{"typed", "", false, "localhost", "Sec-Fetch-Site: none\nSec-Fetch-Mode: navigate\nSec-Fetch-Dest: document", 200},
		{"a link on our own page", "", false, "localhost", "Sec-Fetch-Site: same-origin", 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			o, _ := newAdmin(t)
			o.Token, o.Secured = test.token, test.secured
			paths := []string{"/no/such"}
			for _, page := range o.pages() {
				paths = append(paths, page.Path)
			}
			for _, path := range paths { // none is open
				r := httptest.NewRequest("GET", path, nil)
				r.Host = test.host
				for line := range strings.Lines(test.headers) {
					name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ": ")
					r.Header.Set(name, value)
				}
				w := httptest.NewRecorder()
				Admin(*o).ServeHTTP(w, r)
				want := test.code
				if path == "/no/such" && want == 200 {
					want = 404
				}
				if w.Code != want {
					t.Errorf("%s: got %d %s, want %d", path, w.Code, w.Body, want)
				}
				if h := w.Header(); h.Get("X-Frame-Options") != "DENY" || h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
					t.Errorf("%s: headers %v", path, h)
				}
				if strings.Contains(w.Body.String(), token) {
					t.Errorf("%s shows the token", path)
				}
			}
		})
	}
}
