package settings

import (
	"errors"
	"strings"

	"github.com/spf13/pflag"
)

// AddFlags gives the flag set one flag for each setting. Flags keep their
// text as it is; [Load] checks it, so that all faults are found together.
func AddFlags(flags *pflag.FlagSet) {
	flags.SortFlags = false
	for _, row := range All() {
		flag := flags.VarPF(&flagText{kind: row.Kind(), text: row.Default}, row.Flag(), "", row.usage())
		if row.Kind() == "switch" {
			flag.NoOptDefVal = "true"
		}
	}
}

// ParseFlags reads the arguments of the command line into a flag set of
// [AddFlags]. Its faults do not end it: give them to [Load]. It reports
// whether help is asked for.
func ParseFlags(flags *pflag.FlagSet, args []string) (faults []*Error, help bool) {
	var known []string
	flags.VisitAll(func(f *pflag.Flag) { known = append(known, "--"+f.Name) })
	for {
		fault := flags.Parse(args)
		var unknown *pflag.NotExistError
		switch {
		case errors.Is(fault, pflag.ErrHelp):
			return nil, true
		case errors.As(fault, &unknown) && unknown.GetSpecifiedShortnames() == "":
			// Known from now on, so that the next turn finds the next one.
			name := unknown.GetSpecifiedName()
			flags.VarPF(&flagText{}, name, "", "").NoOptDefVal = "true"
			faults = append(faults, &Error{"--" + name, "is not a flag" + didYouMean("--"+name, known)})
		case errors.As(fault, &unknown):
			name, _, _ := strings.Cut(unknown.GetSpecifiedShortnames(), "=") // a secret may follow
			return append(faults, &Error{"-" + name, "is not a flag; those begin with two dashes" + didYouMean("--"+name, known)}), false
		case fault != nil:
			return append(faults, &Error{"command line", fault.Error()}), false
		case len(faults) == 0 && flags.NArg() > 0:
			return []*Error{{"command line", "unexpected " + withoutValues(flags.Args())}}, false
		default:
			return faults, false
		}
	}
}

// withoutValues shows arguments that were perhaps meant for flags, without what
// may be a secret in them.
func withoutValues(args []string) string {
	shown := make([]string, len(args))
	for i, arg := range args {
		if name, _, has := strings.Cut(arg, "="); has {
			arg = name + "=" + masked
		}
		shown[i] = URL(arg).String()
	}
	return strings.Join(shown, " ")
}

// flagText is the value of a flag, unchecked.
type flagText struct {
	kind, text string
}

func (f *flagText) String() string        { return f.text }
func (f *flagText) Set(text string) error { f.text = text; return nil }
func (f *flagText) Type() string          { return f.kind }
