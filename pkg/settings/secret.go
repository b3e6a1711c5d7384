package settings

import (
	"fmt"
	"io"
	"log/slog"
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

// String returns the address with its password masked: what stands between
// the first : and the last @, and parameters that are called passwords.
func (u URL) String() string {
	scheme, rest, found := strings.Cut(string(u), "://")
	if scheme += "://"; !found {
		scheme, rest = "", string(u)
	}
	if at := strings.LastIndexByte(rest, '@'); at >= 0 {
		if user, _, has := strings.Cut(rest[:at], ":"); has {
			rest = user + ":" + masked + rest[at:]
		}
	}
	rest, query, found := strings.Cut(rest, "?")
	if !found {
		return scheme + rest
	}
	parameters := strings.Split(query, "&")
	for i, parameter := range parameters {
		if name, _, has := strings.Cut(parameter, "="); has && strings.Contains(strings.ToLower(name), "password") {
			parameters[i] = name + "=" + masked
		}
	}
	return scheme + rest + "?" + strings.Join(parameters, "&")
}

// Format masks the password for every verb of package fmt.
func (u URL) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, u.String()) }

// LogValue masks the password in structured logs.
func (u URL) LogValue() slog.Value { return slog.StringValue(u.String()) }

// MarshalText masks the password in JSON and YAML.
func (u URL) MarshalText() ([]byte, error) { return []byte(u.String()), nil }
