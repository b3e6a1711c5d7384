package settings

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Setting is one row of [All].
type Setting struct {
	// Name is the setting's name in the file.
	Name string

	// Group is the heading under which it is documented.
	Group string

	// Default is the value of a setting that is not set, as text.
	Default string

	// Doc says what the setting does, in whole sentences.
	Doc string

	// Choices are the words that a text may be; empty allows any text. An
	// address may be one of them besides.
	Choices []string

	// Socket lets an address be that of a unix socket.
	Socket bool

	// Min and Max bound a number, a duration or a size, both allowed. Empty
	// is no bound.
	Min, Max string

	// FileLess settings cannot be in the file: they say where it is.
	FileLess bool

	target any // the field of Settings
}

// Name is a short word of [Setting.Allowed], or empty.
type Name string

// Fraction is a part of something, from 0 to 1.
type Fraction float64

func (f *Fraction) String() string { return strconv.FormatFloat(float64(*f), 'g', -1, 64) }

// longestName is how many bytes a Name has at most.
const longestName = 63

// Env is the setting's name in the environment.
func (s *Setting) Env() string { return envPrefix + strings.ToUpper(s.Name) }

// Flag is the setting's name on the command line, without its dashes.
func (s *Setting) Flag() string { return strings.ReplaceAll(s.Name, "_", "-") }

// Kind is the type of the setting's value, in a word.
func (s *Setting) Kind() string {
	switch s.target.(type) {
	case *bool:
		return "switch"
	case *int:
		return "number"
	case *time.Duration:
		return "duration"
	case *Size:
		return "size"
	case *Address:
		return "address"
	case *Secret:
		return "secret"
	case *Name:
		return "name"
	case *URL:
		return "url"
	case *Fraction:
		return "fraction"
	}
	if s.Choices != nil {
		return "choice"
	}
	return "text"
}

// Allowed says in words which values the setting may have.
func (s *Setting) Allowed() string {
	switch s.Kind() {
	case "switch":
		return "true or false"
	case "choice":
		return "one of " + strings.Join(s.Choices, ", ")
	case "number":
		return "a whole number" + s.bounds()
	case "duration":
		return "a number with a unit, like 20ms, 5s or 1h" + s.bounds()
	case "size":
		return "bytes, or a number with KiB, MiB or GiB" + s.bounds()
	case "address":
		return s.allowedAddress()
	case "fraction":
		return "a number from 0 to 1"
	case "name":
		return "up to " + strconv.Itoa(longestName) + " letters, digits, - and _"
	case "url":
		return "redis://host:port/db, rediss:// for TLS, unix:///path, redis://host:port,host:port of a Cluster, redis+sentinel://host:port,host:port/name"
	}
	return "any text"
}

func (s *Setting) bounds() string {
	switch {
	case s.Min != "" && s.Max != "":
		return ", from " + s.Min + " to " + s.Max
	case s.Min != "":
		return ", at least " + s.Min
	}
	return ""
}

// parse sets the setting's field. What it returns is the problem with the
// text, or "". It quotes no secret.
func (s *Setting) parse(text string) (problem string) {
	switch to := s.target.(type) {
	case *string:
		*to = text
		return s.checkChoice(text)
	case *Secret:
		*to = Secret(text)
	case *Address:
		*to = Address(text)
		return s.checkAddress(text)
	case *URL:
		*to = URL(text)
	case *Fraction:
		value, err := strconv.ParseFloat(text, 64)
		if err != nil || !(value >= 0 && value <= 1) { // nor NaN
			return fmt.Sprintf("%q is no %s; write %s", text, s.Kind(), s.Allowed())
		}
		*to = Fraction(value)
	case *Name:
		*to = Name(text)
		return s.checkName(text)
	case *bool:
		value, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Sprintf("%q is not %s", text, s.Allowed())
		}
		*to = value
	default:
		return s.parseNumber(text)
	}
	return ""
}

// parseNumber sets a field that has bounds.
func (s *Setting) parseNumber(text string) (problem string) {
	n, ok := s.number(text)
	least, hasLeast := s.number(s.Min)
	most, hasMost := s.number(s.Max)
	switch {
	case !ok:
		return fmt.Sprintf("%q is no %s; write %s", text, s.Kind(), s.Allowed())
	case hasLeast && n < least:
		return fmt.Sprintf("%s is too little%s", text, s.bounds())
	case hasMost && n > most:
		return fmt.Sprintf("%s is too much%s", text, s.bounds())
	}
	switch to := s.target.(type) {
	case *int:
		*to = int(n)
	case *time.Duration:
		*to = time.Duration(n)
	case *Size:
		*to = Size(n)
	}
	return ""
}

func (s *Setting) number(text string) (int64, bool) {
	switch s.target.(type) {
	case *time.Duration:
		if text == "0" {
			return 0, true
		}
		d, err := time.ParseDuration(text)
		return int64(d), err == nil
	case *Size:
		size, ok := parseSize(text)
		return int64(size), ok
	}
	n, err := strconv.ParseInt(text, 10, 64)
	return n, err == nil
}

func (s *Setting) checkChoice(text string) (problem string) {
	if s.Choices == nil || slices.Contains(s.Choices, text) {
		return ""
	}
	return fmt.Sprintf("%q is not %s%s", text, s.Allowed(), didYouMean(text, s.Choices))
}

func (s *Setting) checkName(text string) (problem string) {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_"
	if len(text) > longestName || strings.Trim(text, letters) != "" {
		return fmt.Sprintf("%q is no name; write %s", text, s.Allowed())
	}
	return ""
}

// current is the setting's value as text, secrets masked.
func (s *Setting) current() string {
	switch from := s.target.(type) {
	case *string:
		return *from
	case *Address:
		return string(*from)
	case *Name:
		return string(*from)
	case *bool:
		return strconv.FormatBool(*from)
	case *int:
		return strconv.Itoa(*from)
	case fmt.Stringer: // *Secret, *URL, *Size, *Fraction, *time.Duration
		return from.String()
	}
	panic("settings: " + s.Name + " has a field of a type that is not known here")
}
