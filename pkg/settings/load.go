package settings

import (
	"os"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Source is what [Load] reads besides the settings file and the environment.
type Source struct {
	// Flags are those of [AddFlags].
	Flags *pflag.FlagSet

	// Faults were found by [ParseFlags]. They are reported with all others.
	Faults []*Error

	// CheckURL reports what is wrong with the URL of a Redis, without its password;
	// nil takes every text.
	CheckURL func(string) error
}

// Load reads the settings file, this process's environment and the flags, in
// rising precedence, and checks everything. All faults come as one
// *[ErrorList]. A variable of the environment that is empty is as good as none.
func Load(from Source) (*Settings, error) {
	flags := from.Flags
	s := &Settings{origins: map[string]string{}}
	rows := table(s)
	faults := &ErrorList{}

	v := viper.New()
	for _, row := range rows {
		v.SetDefault(row.Name, row.Default)
		if err := v.BindEnv(row.Name, row.Env()); err != nil {
			return nil, err
		}
		if err := v.BindPFlag(row.Name, flags.Lookup(row.Flag())); err != nil {
			return nil, err
		}
	}
	path := v.GetString("config")
	file := readFile(path, origin(find(rows, "config"), flags) != "", rows, faults)
	inFile := map[string]any{}
	for name, value := range file {
		inFile[name] = value.text
	}
	if err := v.MergeConfigMap(inFile); err != nil {
		return nil, err
	}

	checkEnvironment(os.Environ(), rows, faults)
	faults.Errors = append(faults.Errors, from.Faults...)
	for _, row := range rows {
		where := origin(&row, flags)
		if value, found := file[row.Name]; where == "" && found {
			where = at(path, value.line)
		}
		s.origins[row.Name] = where
		problem := row.parse(v.GetString(row.Name))
		if text := v.GetString(row.Name); row.Kind() == "url" && text != row.Default && from.CheckURL != nil {
			if err := from.CheckURL(text); err != nil {
				problem = err.Error()
			}
		}
		if problem != "" {
			if strings.HasPrefix(where, path+":") {
				where += ": " + row.Name
			}
			faults.add(where, problem)
		}
	}
	s.checkTogether(faults)
	if len(faults.Errors) > 0 {
		return nil, faults
	}
	return s, nil
}

// origin names the flag or the variable that sets a setting, or is empty.
func origin(row *Setting, flags *pflag.FlagSet) string {
	switch {
	case flags.Changed(row.Flag()):
		return "--" + row.Flag()
	case os.Getenv(row.Env()) != "":
		return row.Env()
	}
	return ""
}
