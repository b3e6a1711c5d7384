package descriptors

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one fault of a policy file.
type Error struct {
	File string

	// Line and Column count from 1. Column is 0 where only the line is known,
	// Line where the fault is that of the whole file, or the policy is none
	// of lines.
	Line, Column int

	// Path leads to the field, as in descriptors[0].rate_limit.unit; empty at
	// the top of the file.
	Path string

	// Problem says what is wrong and what is allowed.
	Problem string
}

// Error prints the fault on one line, the place first.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.place())
	b.WriteString(": ")
	if e.Path != "" {
		b.WriteString(e.Path)
		b.WriteString(": ")
	}
	b.WriteString(e.Problem)
	return b.String()
}

// place is file:line:column, as far as known.
func (e *Error) place() string {
	switch {
	case e.Line == 0:
		return e.File
	case e.Column == 0:
		return fmt.Sprintf("%s:%d", e.File, e.Line)
	}
	return fmt.Sprintf("%s:%d:%d", e.File, e.Line, e.Column)
}

// ErrorList is every fault of a set of policy files, in the order of the files
// and their lines.
type ErrorList struct {
	Errors []*Error

	// More is the number of faults that were found beyond the first thousand.
	More int
}

// maxErrors bounds the memory and the log line of a file that is no policy.
const maxErrors = 1000

// Error prints one fault a line.
func (l *ErrorList) Error() string {
	lines := make([]string, 0, len(l.Errors)+1)
	for _, e := range l.Errors {
		lines = append(lines, e.Error())
	}
	if l.More > 0 {
		lines = append(lines, fmt.Sprintf("and %d more errors", l.More))
	}
	return strings.Join(lines, "\n")
}

// Unwrap gives errors.As each fault.
func (l *ErrorList) Unwrap() []error {
	errs := make([]error, len(l.Errors))
	for i, e := range l.Errors {
		errs[i] = e
	}
	return errs
}

// faults collects errors. What is wrong once and used often, through an
// alias, is one error.
type faults struct {
	lenient  bool
	list     ErrorList
	warnings []*Error
	seen     map[Error]bool
}

func (f *faults) add(e Error) {
	switch {
	case f.isSeen(e):
	case f.full():
		f.list.More++
	default:
		f.see(e)
		f.list.Errors = append(f.list.Errors, &e)
	}
}

// lapse adds what is an error, or a warning where the files are taken leniently.
func (f *faults) lapse(e Error) {
	switch {
	case !f.lenient:
		f.add(e)
	case len(f.warnings) < maxErrors && !f.isSeen(e):
		f.see(e)
		f.warnings = append(f.warnings, &e)
	}
}

func (f *faults) isSeen(e Error) bool { return f.seen[sameness(e)] }

func (f *faults) see(e Error) {
	if f.seen == nil {
		f.seen = make(map[Error]bool)
	}
	f.seen[sameness(e)] = true
}

// sameness is equal for faults of which one is enough.
func sameness(e Error) Error {
	if e.Line != 0 {
		e.Path = ""
	}
	return e
}

// full reports whether what is added is only counted.
func (f *faults) full() bool { return len(f.list.Errors) == maxErrors }

// err returns all that was added, sorted, nil if there was nothing.
func (f *faults) err(files []File) error {
	if len(f.list.Errors) == 0 {
		return nil
	}
	sortByPlace(f.list.Errors, files)
	return &f.list
}

// sortByPlace sorts errors by file and line.
func sortByPlace(list []*Error, files []File) {
	order := make(map[string]int, len(files))
	for i, file := range files {
		order[file.Name] = i
	}
	slices.SortStableFunc(list, func(a, b *Error) int {
		return cmp.Or(
			cmp.Compare(order[a.File], order[b.File]),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
		)
	})
}
