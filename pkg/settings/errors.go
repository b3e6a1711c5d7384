package settings

import "strings"

// Error is one fault in the settings.
type Error struct {
	// Where is the place that a person would go to in order to mend it: a
	// file with a line, a variable of the environment, a flag.
	Where string

	// Problem says what is wrong and what is allowed. It never holds a
	// secret.
	Problem string
}

func (e *Error) Error() string { return e.Where + ": " + e.Problem }

// ErrorList is every fault of one [Load], in the order file, environment,
// flags, values, combinations.
type ErrorList struct {
	Errors []*Error
}

// Error prints one fault a line.
func (l *ErrorList) Error() string {
	lines := make([]string, len(l.Errors))
	for i, e := range l.Errors {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives the single faults to errors.As.
func (l *ErrorList) Unwrap() []error {
	all := make([]error, len(l.Errors))
	for i, e := range l.Errors {
		all[i] = e
	}
	return all
}

func (l *ErrorList) add(where, problem string) {
	l.Errors = append(l.Errors, &Error{Where: where, Problem: problem})
}
