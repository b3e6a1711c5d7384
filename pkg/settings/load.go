package settings

import (
	"os"
	"strings"

	"github.com/spf13/pflag"
	"github.com/spf13/viper"
)

// Load reads the settings file, this process's environment and the flags of
// [AddFlags], in rising precedence, and checks everything. The faults of the
// command line are reported along with its own, all as one *[ErrorList].
//
// A variable of the environment that is empty is as good as none.
func Load(flags *pflag.FlagSet, commandLine ...*Error) (*Settings, error) {
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
	faults.Errors = append(faults.Errors, commandLine...)
	for _, row := range rows {
		where := origin(&row, flags)
		if value, found := file[row.Name]; where == "" && found {
			where = at(path, value.line)
		}
		s.origins[row.Name] = where
		if problem := row.parse(v.GetString(row.Name)); problem != "" {
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
