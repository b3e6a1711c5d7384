package settings

import (
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"strings"
)

// masked stands for a secret wherever one would be printed.
const masked = "********"

// Secret is a text that must not be seen in a log, an error or a page. Every
// way to print it prints a mask; [Secret.Reveal] is the only way to the text.
// The zero value is no secret, and prints as nothing.
type Secret string

// Reveal returns the secret itself.
func (s Secret) Reveal() string { return string(s) }

// String returns the mask, or nothing when there is no secret.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return masked
}

// Format masks the secret for every verb of package fmt, %#v and %x included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, s.String()) }

// LogValue masks the secret in structured logs.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText masks the secret in JSON and YAML.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// URL is an address that may hold a password, which is masked wherever the
// address is printed. [URL.Reveal] returns it with the password.
type URL string

// Reveal returns the address with its password.
func (u URL) Reveal() string { return string(u) }

// String returns the address with its password masked. What cannot be read
// as an address is masked whole, for nobody knows where its password is.
func (u URL) String() string {
	if u == "" {
		return ""
	}
	parsed, err := url.Parse(string(u))
	if err != nil || parsed.Opaque != "" {
		return masked
	}
	if _, has := parsed.User.Password(); has {
		parsed.User = url.UserPassword(parsed.User.Username(), masked)
	}
	query := parsed.Query()
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, masked)
		}
	}
	parsed.RawQuery = query.Encode()
	return strings.ReplaceAll(parsed.String(), url.QueryEscape(masked), masked)
}

// Format masks the password for every verb of package fmt.
func (u URL) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// LogValue masks the password in structured logs.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText masks the password in JSON and YAML.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }
