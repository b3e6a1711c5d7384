package compat

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// Fate is what becomes of a variable here.
type Fate uint8

const (
	// Same means what it means to envoyproxy/ratelimit.
	Same Fate = iota
	// Better means the same without a fault.
	Better
	// Ignored is read and changes nothing, for a reason.
	Ignored
	// Refused stops the start for some values, for a reason.
	Refused
)

func (f Fate) String() string { return [...]string{"same", "better", "ignored", "refused"}[f] }

// Row is one variable of the environment.
type Row struct {
	Group   string
	Name    string
	Default string
	Doc     string // what it means
	Fate    Fate
	How     string // what is better, or why it is ignored or refused

	target any  // where its value goes
	secret bool // it is not shown
}

// Kind is the type of the variable's values, in words.
func (r *Row) Kind() string {
	switch r.target.(type) {
	case *bool:
		return "true or false"
	case *int:
		return "a whole number"
	case *float64:
		return "a number"
	case *time.Duration:
		return "a duration such as 10s"
	case *[]string:
		return "words with commas between them"
	case *map[string]string:
		return "name:value,name:value"
	}
	return "text"
}

// parse puts a value where it belongs. The problem that it returns quotes no
// secret.
func (r *Row) parse(text string) (problem string) {
	var err error
	switch to := r.target.(type) {
	case *string:
		*to = text
	case *settings.Secret:
		*to = settings.Secret(text)
	case *bool:
		*to, err = strconv.ParseBool(text)
	case *int:
		var n int64
		n, err = strconv.ParseInt(text, 0, strconv.IntSize) // 0x10 and 010 too, as there
		*to = int(n)
	case *float64:
		if *to, err = strconv.ParseFloat(text, 64); err == nil && (math.IsNaN(*to) || math.IsInf(*to, 0)) {
			err = strconv.ErrRange
		}
	case *time.Duration:
		*to, err = time.ParseDuration(text)
	case *[]string:
		*to = words(text)
	case *map[string]string:
		*to, err = pairs(text)
	default:
		panic("compat: " + r.Name + " has a field of a type that is not known here")
	}
	switch {
	case err == nil:
		return ""
	case r.secret:
		return "is not " + r.Kind()
	}
	return fmt.Sprintf("%q is not %s", text, r.Kind())
}

// shown is a value as people may see it.
func (r *Row) shown(text string) string {
	switch _, isSecret := r.target.(*settings.Secret); {
	case isSecret, r.secret:
		return settings.Secret(text).String()
	case strings.HasSuffix(r.Name, "_URL"):
		return settings.URL(text).String()
	}
	return text
}

func words(text string) []string {
	var all []string
	for word := range strings.SplitSeq(text, ",") {
		if word = strings.TrimSpace(word); word != "" {
			all = append(all, word)
		}
	}
	return all
}

// pairs reads name:value,name:value. A value has no colon, as there.
func pairs(text string) (map[string]string, error) {
	all := make(map[string]string)
	for _, word := range words(text) {
		name, value, ok := strings.Cut(word, ":")
		if !ok || strings.Contains(value, ":") {
			return nil, strconv.ErrSyntax
		}
		all[name] = value
	}
	return all, nil
}

// joined writes pairs as package settings reads them.
func joined(all map[string]string) string {
	parts := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		parts = append(parts, name+"="+all[name])
	}
	return strings.Join(parts, ",")
}
