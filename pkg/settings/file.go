package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A fileValue is a setting as the file has it.
type fileValue struct {
	text string
	line int
}

// readFile reads the settings file. A file that is not there has no settings,
// unless it was asked for by name.
func readFile(path string, named bool, rows []Setting, faults *ErrorList) map[string]fileValue {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !named {
		return nil
	}
	if err != nil {
		faults.add(path, plain(err))
		return nil
	}
	return parseFile(path, text, rows, faults)
}

// parseFile reads the text of the settings file.
func parseFile(path string, text []byte, rows []Setting, faults *ErrorList) map[string]fileValue {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		problem := strings.TrimPrefix(err.Error(), "yaml: ")
		if strings.HasPrefix(problem, "unknown anchor") { // its name may be a password
			problem = "a value that begins with * has to stand in quotes"
		}
		faults.add(path, problem)
		return nil
	}
	if document.Kind == 0 { // nothing but comments
		return nil
	}
	root := document.Content[0]
	if root.Kind != yaml.MappingNode {
		faults.add(at(path, root.Line), "is not a list of settings; write one a line, like store: redis")
		return nil
	}
	values := map[string]fileValue{}
	for i := 0; i < len(root.Content); i += 2 {
		name, value := root.Content[i], root.Content[i+1]
		if problem := readSetting(name, value, rows, values); problem != "" {
			faults.add(at(path, name.Line), problem)
		}
	}
	return values
}

// readSetting adds one setting of the file to values.
func readSetting(name, value *yaml.Node, rows []Setting, values map[string]fileValue) (problem string) {
	row := find(rows, name.Value)
	switch earlier, twice := values[name.Value]; {
	case row == nil:
		return fmt.Sprintf("%q is not a setting%s", name.Value, cmp.Or(didYouMean(name.Value, names(rows)), allListed))
	case row.FileLess:
		return fmt.Sprintf("%s cannot be set in the file; use %s or --%s", row.Name, row.Env(), row.Flag())
	case twice:
		return fmt.Sprintf("%s is set twice, first in line %d", row.Name, earlier.line)
	}
	if value.Kind == yaml.AliasNode {
		value = value.Alias
	}
	if value.Kind != yaml.ScalarNode {
		return fmt.Sprintf("%s is not a single value; allowed: %s", row.Name, row.Allowed())
	}
	if value.Tag == "!!null" {
		return "" // as if it were not there
	}
	values[row.Name] = fileValue{text: value.Value, line: name.Line}
	return ""
}

// plain removes what an error of package os says again.
func plain(err error) string {
	if at, ok := errors.AsType[*fs.PathError](err); ok {
		return at.Err.Error()
	}
	return err.Error()
}

func at(path string, line int) string { return path + ":" + strconv.Itoa(line) }

func find(rows []Setting, name string) *Setting {
	for i := range rows {
		if rows[i].Name == name {
			return &rows[i]
		}
	}
	return nil
}

func names(rows []Setting) []string {
	all := make([]string, len(rows))
	for i := range rows {
		all[i] = rows[i].Name
	}
	return all
}
