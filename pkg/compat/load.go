package compat

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// Note is a variable that is set and makes no sense here.
type Note struct {
	Name   string
	Reason string
}

// Value is one variable as it is in force, to be shown to people.
type Value struct {
	Name   string
	Text   string // secrets masked
	Origin string // default or environment
}

// Values returns all variables as they are in force, in the order of [All],
// secrets masked.
func (s *Settings) Values() []Value { return s.values }

// Load reads the variables of an environment, each NAME=value, into checked
// settings. The notes are for the log. A number, a duration or a switch that is
// set to nothing counts as not set. All faults come as one
// *[settings.ErrorList]; none of them shows a secret.
func Load(environ []string) (*Settings, []Note, error) {
	set := variables(environ)
	e := &environment{}
	var notes []Note
	var values []Value
	f := &faults{}
	for _, row := range e.rows() {
		value, origin := row.Default, "default"
		if text, ok := set[row.Name]; ok && (text != "" || row.Kind() == "text") {
			value, origin = text, "environment"
		}
		values = append(values, Value{row.Name, row.shown(value), origin})
		if row.Fate == Ignored && set[row.Name] != "" {
			notes = append(notes, Note{row.Name, row.How})
		}
		if value == "" {
			continue // as all is at first
		}
		if problem := row.parse(value); problem != "" {
			f.add(row.Name, "%s", problem)
		}
	}
	e.stats.MogrifierRules = mogrifierRules(set)
	s := e.settings(set, f)
	s.values = values
	if len(f.list.Errors) > 0 {
		return nil, nil, &f.list
	}
	return s, notes, nil
}

// variables are those of the environment, by name.
func variables(environ []string) map[string]string {
	set := make(map[string]string)
	for _, variable := range environ {
		name, value, _ := strings.Cut(variable, "=")
		set[name] = value
	}
	return set
}

func mogrifierRules(set map[string]string) map[string]string {
	rules := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if rule, ok := strings.CutPrefix(name, mogrifierPrefix); ok {
			rules[rule] = set[name]
		}
	}
	return rules
}

// faults collects what is wrong.
type faults struct{ list settings.ErrorList }

func (f *faults) add(name, format string, args ...any) {
	f.list.Errors = append(f.list.Errors, &settings.Error{Where: name, Problem: fmt.Sprintf(format, args...)})
}
