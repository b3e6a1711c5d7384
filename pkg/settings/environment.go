package settings

import (
	"regexp"
	"slices"
	"strings"

	"github.com/ratelimitd/ratelimitd/internal/spelling"
)

const envPrefix = "RATELIMITD_"

// injected matches the variables that Kubernetes gives to every container for
// a Service called ratelimitd, or ratelimitd-something: its host, its ports,
// and the same again in the form of Docker's links. No setting may have a name
// like these.
var injected = regexp.MustCompile(`^RATELIMITD_([A-Z0-9_]+_)?(SERVICE_HOST|SERVICE_PORT(_[A-Z0-9_]+)?|PORT(_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)?)$`)

// checkEnvironment finds variables that look like settings and are none.
func checkEnvironment(environ []string, rows []Setting, faults *ErrorList) {
	for _, variable := range slices.Sorted(slices.Values(environ)) {
		name, value, _ := strings.Cut(variable, "=")
		if !strings.HasPrefix(name, envPrefix) || isInjected(name, value) {
			continue
		}
		word := strings.ToLower(strings.TrimPrefix(name, envPrefix))
		row := find(rows, word)
		switch {
		case row == nil:
			row = find(rows, spelling.Nearest(word, names(rows)))
		case row.Env() == name:
			continue
		}
		hint := allListed
		if row != nil {
			hint = "; did you mean " + row.Env() + "?"
		}
		faults.add(name, "is not a setting"+hint)
	}
}

// isInjected tells a variable of Kubernetes from a mistaken setting: what ends
// in _PORT alone is tcp://10.0.0.1:8081 from Kubernetes, and 8081 from a person.
func isInjected(name, value string) bool {
	link := strings.Contains(value, "://") || !strings.HasSuffix(name, "_PORT") || strings.HasSuffix(name, "_SERVICE_PORT") ||
		strings.Contains(name, "_PORT_")
	return link && injected.MatchString(name)
}
