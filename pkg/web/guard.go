package web

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// guard lets nobody see the admin pages who must not. With a token, requests
// have to carry it. Without one, whoever reaches the listener may, except for
// pages of other sites in a browser on this machine.
func guard(token string, secured bool, next http.Handler) http.Handler {
	want := sha256.Sum256([]byte(token))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		protect(w.Header())
		switch {
		case token != "" && !carries(r, want):
			w.Header().Set("WWW-Authenticate", `Bearer realm="ratelimitd"`)
			refuse(w, http.StatusUnauthorized, "the admin pages need the token of the settings: send it as Authorization: Bearer TOKEN")
		case token == "" && !secured && !isLocal(r.Host):
			refuse(w, http.StatusMisdirectedRequest, "the admin pages are for localhost, 127.0.0.1 and [::1], not for host %q; "+
				"the setting admin_token lets them have other names", shorten(r.Host))
		case fromAnotherSite(r):
			refuse(w, http.StatusForbidden, "the admin pages are not for pages of other sites")
		default:
			next.ServeHTTP(w, r)
		}
	})
}

// protect has browsers take an answer for what it is, show it in no frame, and
// keep it nowhere.
func protect(h http.Header) {
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// carries compares hashes, in a time that tells nothing of how alike the tokens
// are, nor of how long the right one is.
func carries(r *http.Request, want [sha256.Size]byte) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got := sha256.Sum256([]byte(strings.TrimSpace(token)))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1 && strings.EqualFold(scheme, "Bearer")
}

// isLocal reports whether a request names this machine by an address or a name
// that no other machine can have. Pages of another site whose name was made to
// lead here do not.
func isLocal(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	if strings.EqualFold(strings.TrimSuffix(host, "."), "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.Unmap().IsLoopback()
}

// fromAnotherSite reports whether a browser says that a page of another site,
// or of another port, makes the request, and not somebody who follows a link.
func fromAnotherSite(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin":
		return false
	}
	return r.Header.Get("Sec-Fetch-Mode") != "navigate" || r.Header.Get("Sec-Fetch-Dest") != "document" || r.Method != http.MethodGet
}

// shorten makes a text of a client fit for an answer.
func shorten(text string) string {
	const longest = 80
	if len(text) > longest {
		return text[:longest] + "…"
	}
	return text
}
