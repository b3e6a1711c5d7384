package integration

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// envoyFilter is one EnvoyFilter of Istio, as far as those of deploy/istio go.
type envoyFilter struct {
	Metadata struct{ Name, Namespace string }
	Spec     struct {
		WorkloadSelector struct{ Labels map[string]string } `yaml:"workloadSelector"`
		ConfigPatches    []configPatch                      `yaml:"configPatches"`
	}
	APIVersion string `yaml:"apiVersion"`
	Kind       string
}

// configPatch says where in Envoy's configuration to change what.
type configPatch struct {
	ApplyTo string `yaml:"applyTo"`
	Match   struct {
		Context  string
		Listener struct {
			FilterChain struct {
				Filter struct {
					Name      string
					SubFilter struct{ Name string } `yaml:"subFilter"`
				}
			} `yaml:"filterChain"`
		}
		RouteConfiguration struct {
			Vhost struct {
				Name  string
				Route struct{ Name string }
			}
		} `yaml:"routeConfiguration"`
	}
	Patch struct {
		Operation string
		Value     object
	}
}

// object and list are what Envoy's configuration is made of.
type (
	object = map[string]any
	list   = []any
)

// readEnvoyFilters reads a file of deploy/istio. A field that apply does not know is an error.
func readEnvoyFilters(t *testing.T, name string) []envoyFilter {
	t.Helper()
	file, err := os.Open(filepath.Join(istioDir, name))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	documents := yaml.NewDecoder(file)
	documents.KnownFields(true)
	var all []envoyFilter
	for {
		var f envoyFilter
		err := documents.Decode(&f)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, f)
	}
}

// apply changes the listeners of a proxy as Istio would. It returns an error for a patch that changes nothing, which Istio would
// leave out without a word.
func (p *configPatch) apply(context string, listeners list) error {
	if p.Match.Context != context {
		return fmt.Errorf("a patch for %s", p.Match.Context)
	}
	changed := 0
	for _, manager := range managers(listeners) {
		switch p.ApplyTo + " " + p.Patch.Operation {
		case "HTTP_FILTER INSERT_BEFORE":
			filter := p.Match.Listener.FilterChain.Filter
			filters := manager["http_filters"].(list)
			i := slices.IndexFunc(filters, func(f any) bool { return f.(object)["name"] == filter.SubFilter.Name })
			if filter.Name == connectionManager && i >= 0 {
				manager["http_filters"] = slices.Insert(filters, i, clone(p.Patch.Value))
				changed++
			}
		case "VIRTUAL_HOST MERGE", "HTTP_ROUTE MERGE":
			changed += p.mergeRoutes(manager["route_config"].(object))
		default:
			return fmt.Errorf("a patch that this test does not know: %s %s", p.ApplyTo, p.Patch.Operation)
		}
	}
	if changed == 0 {
		return fmt.Errorf("%s %s finds nothing to change", p.ApplyTo, p.Patch.Operation)
	}
	return nil
}

// mergeRoutes merges into the virtual hosts or routes that match, and returns how many they are.
func (p *configPatch) mergeRoutes(routes object) (changed int) {
	match := p.Match.RouteConfiguration.Vhost
	for _, host := range routes["virtual_hosts"].(list) {
		host := host.(object)
		if match.Name != "" && match.Name != host["name"] {
			continue
		}
		if p.ApplyTo == "VIRTUAL_HOST" {
			merge(host, p.Patch.Value)
			changed++
			continue
		}
		for _, route := range host["routes"].(list) {
			if match.Route.Name == "" || match.Route.Name == route.(object)["name"] {
				merge(route.(object), p.Patch.Value)
				changed++
			}
		}
	}
	return changed
}

const connectionManager = "envoy.filters.network.http_connection_manager"

// managers returns the HTTP connection managers of the listeners.
func managers(listeners list) []object {
	var all []object
	for _, listener := range listeners {
		for _, chain := range listener.(object)["filter_chains"].(list) {
			for _, filter := range chain.(object)["filters"].(list) {
				if filter.(object)["name"] == connectionManager {
					all = append(all, filter.(object)["typed_config"].(object))
				}
			}
		}
	}
	return all
}

// merge merges as protocol buffers do: a list is appended to, an object merged, anything else replaced.
func merge(into, from object) {
	for key, value := range from {
		switch old := into[key].(type) {
		case object:
			merge(old, value.(object))
		case list:
			into[key] = append(old, clone(value).(list)...)
		default:
			into[key] = clone(value)
		}
	}
}

// clone copies a value all the way down.
func clone(value any) any {
	switch value := value.(type) {
	case object:
		c := object{}
		merge(c, value)
		return c
	case list:
		c := list{}
		for _, item := range value {
			c = append(c, clone(item))
		}
		return c
	}
	return value
}

// What apply itself does to a configuration, in small.
func TestApplyEnvoyFilter(t *testing.T) {
	const before = `
- filter_chains:
    - filters:
        - name: envoy.filters.network.http_connection_manager
          typed_config:
            http_filters: [{name: jwt}, {name: router}]
            route_config:
              virtual_hosts:
                - name: a
                  routes: [{name: x, route: {cluster: c, rate_limits: [1]}}, {name: y, route: {cluster: c}}]
                - {name: b, routes: []}
`
	tests := []struct{ name, patch, want string }{
		{
			"a filter before another",
			`{applyTo: HTTP_FILTER, match: {context: GATEWAY, listener: {filterChain: {filter: {name: envoy.filters.network.http_connection_manager, subFilter: {name: router}}}}},
			  patch: {operation: INSERT_BEFORE, value: {name: limit}}}`,
			`http_filters: [{name: jwt}, {name: limit}, {name: router}]`,
		},
		{
			"every virtual host",
			`{applyTo: VIRTUAL_HOST, match: {context: GATEWAY}, patch: {operation: MERGE, value: {rate_limits: [2]}}}`,
			`virtual_hosts: [{name: a, rate_limits: [2], routes: [{name: x, route: {cluster: c, rate_limits: [1]}}, {name: y, route: {cluster: c}}]},
			  {name: b, rate_limits: [2], routes: []}]`,
		},
		{
			"a route by name; lists are appended to",
			`{applyTo: HTTP_ROUTE, match: {context: GATEWAY, routeConfiguration: {vhost: {route: {name: x}}}}, patch: {operation: MERGE, value: {route: {rate_limits: [2]}}}}`,
			`virtual_hosts: [{name: a, routes: [{name: x, route: {cluster: c, rate_limits: [1, 2]}}, {name: y, route: {cluster: c}}]}, {name: b, routes: []}]`,
		},
		{
			"for another kind of proxy", `{applyTo: VIRTUAL_HOST, match: {context: SIDECAR_INBOUND}, patch: {operation: MERGE, value: {}}}`, "error: a patch for SIDECAR_INBOUND",
		},
		{
			"that finds nothing", `{applyTo: VIRTUAL_HOST, match: {context: GATEWAY, routeConfiguration: {vhost: {name: c}}}, patch: {operation: MERGE, value: {}}}`,
			"error: VIRTUAL_HOST MERGE finds nothing to change",
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var listeners list
			var patch configPatch
			parse(t, before, &listeners)
			parse(t, test.patch, &patch)
			err := patch.apply("GATEWAY", listeners)
			if want, found := strings.CutPrefix(test.want, "error: "); found {
				if err == nil || err.Error() != want {
					t.Errorf("got error %v, want %s", err, want)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var want object
			parse(t, test.want, &want)
			manager := managers(listeners)[0]
			for key, value := range want {
				if got := manager["route_config"].(object)[key]; key == "virtual_hosts" && fmt.Sprint(got) != fmt.Sprint(value) {
					t.Errorf("got  %v\nwant %v", got, value)
				}
				if got := manager[key]; key == "http_filters" && fmt.Sprint(got) != fmt.Sprint(value) {
					t.Errorf("got  %v\nwant %v", got, value)
				}
			}
		})
	}
}

func parse(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(text, "\t", "")), into); err != nil {
		t.Fatal(err)
	}
}
