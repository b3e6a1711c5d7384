package docs

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// parts are the places of deploy/envoy/envoy.yaml in which a block of Envoy's configuration is checked. A mapping is put over
// what is there, key by key; a list comes before it.
var parts = map[string]string{
	"bootstrap":    "",
	"hcm":          "static_resources/listeners/0/filter_chains/0/filters/0/typed_config",
	"filter":       "static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters/0/typed_config",
	"http_filters": "static_resources/listeners/0/filter_chains/0/filters/0/typed_config/http_filters",
	"virtual_host": "static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config/virtual_hosts/0",
	"routes":       "static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config/virtual_hosts/0/routes",
	"rate_limits":  "static_resources/listeners/0/filter_chains/0/filters/0/typed_config/route_config/virtual_hosts/0/routes/0/route/rate_limits",
	"cluster":      "static_resources/clusters/1",
	"clusters":     "static_resources/clusters",
}

// envoy is fetched by make; the version stands in tools/envoy.txt.
const envoy = ".tools/envoy-1.40.0"

// checkEnvoy lets the real Envoy validate a block: in its place of the sample configuration, or, with the word file, alone.
func checkEnvoy(t *testing.T, b *block) {
	t.Helper()
	if len(b.words) < 2 {
		t.Errorf("%s: say after `yaml envoy` where in the configuration it belongs: file, or one of %v", b.at, slices.Sorted(maps.Keys(parts)))
		return
	}
	config := []byte(b.text())
	if b.words[1] != "file" {
		var err error
		if config, err = placed(b.words[1], config); err != nil {
			t.Errorf("%s: %v", b.at, err)
			return
		}
	}
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	if err := os.WriteFile(file, config, 0o600); err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command(filepath.Join(root, envoy), "--mode", "validate", "-c", file, "-l", "warning").CombinedOutput()
	if err != nil || strings.Contains(string(said), "deprecated") {
		t.Errorf("%s: Envoy does not take this: %v\n%s", b.at, err, said)
	}
}

// placed returns the sample configuration with a block in its place. JSON is YAML.
func placed(part string, text []byte) ([]byte, error) {
	sample, err := os.ReadFile(filepath.Join(root, "deploy/envoy/envoy.yaml"))
	if err != nil {
		return nil, err
	}
	path, known := parts[part]
	var config, block any
	if err := yaml.Unmarshal(sample, &config); err != nil {
		return nil, err
	}
	if err := yaml.Unmarshal(text, &block); err != nil {
		return nil, err
	}
	if !known {
		return nil, fmt.Errorf("%s is no part of the sample configuration", part)
	}
	var steps []string
	if path != "" {
		steps = strings.Split(path, "/")
	}
	if config, err = put(config, block, steps); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return json.Marshal(config)
}

// put returns a tree in which a block is merged into what the steps lead to.
func put(tree, block any, steps []string) (any, error) {
	switch at := tree.(type) {
	case map[string]any:
		if len(steps) > 0 {
			below, err := put(at[steps[0]], block, steps[1:])
			at[steps[0]] = below
			return at, err
		}
		fields, ok := block.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("a mapping belongs here, not %T", block)
		}
		maps.Copy(at, fields)
		return at, nil
	case []any:
		if len(steps) > 0 {
			i, err := strconv.Atoi(steps[0])
			if err != nil || i >= len(at) {
				return nil, fmt.Errorf("there is no %s", steps[0])
			}
			at[i], err = put(at[i], block, steps[1:])
			return at, err
		}
		items, ok := block.([]any)
		if !ok {
			return nil, fmt.Errorf("a list belongs here, not %T", block)
		}
		return append(items, at...), nil
	default:
		return nil, fmt.Errorf("there is nothing here to put it into")
	}
}
