package integration

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// samplesDir holds what Envoy has to send for the policies of config/policies.
const samplesDir = "../config/envoy"

// envoySample is a file of config/envoy: parts of Envoy's configuration, each with the place where it belongs.
type envoySample struct {
	name string

	HTTPFilters []any `yaml:"http_filters"` // before those that are there
	RateLimits  []any `yaml:"rate_limits"`  // of the virtual host
	Routes      []any `yaml:"routes"`       // of the virtual host, before those that are there
}

// envoySamples reads all of them. An unknown part fails.
func envoySamples(t *testing.T) []envoySample {
	t.Helper()
	var all []envoySample
	err := filepath.WalkDir(samplesDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		decoder := yaml.NewDecoder(file)
		decoder.KnownFields(true)
		sample := envoySample{name: strings.TrimSuffix(strings.TrimPrefix(path, samplesDir+"/"), ".yaml")}
		if err := decoder.Decode(&sample); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		all = append(all, sample)
		return nil
	})
	if err != nil || len(all) == 0 {
		t.Fatalf("%d samples: %v", len(all), err)
	}
	return all
}

// withSamples puts samples into the text of an Envoy configuration, each part where it belongs. JSON is YAML.
func withSamples(t *testing.T, text string, samples []envoySample) string {
	t.Helper()
	var config map[string]any
	if err := yaml.Unmarshal([]byte(text), &config); err != nil {
		t.Fatal(err)
	}
	listener := config["static_resources"].(map[string]any)["listeners"].([]any)[0].(map[string]any)
	filter := listener["filter_chains"].([]any)[0].(map[string]any)["filters"].([]any)[0].(map[string]any)
	manager := filter["typed_config"].(map[string]any)
	host := manager["route_config"].(map[string]any)["virtual_hosts"].([]any)[0].(map[string]any)
	before := func(at map[string]any, name string, items []any) {
		there, _ := at[name].([]any)
		if len(items) > 0 {
			at[name] = slices.Concat(items, there)
		}
	}
	for _, sample := range samples {
		before(manager, "http_filters", sample.HTTPFilters)
		before(host, "rate_limits", sample.RateLimits)
		before(host, "routes", sample.Routes)
	}
	merged, err := json.Marshal(config)
	if err != nil {
		t.Fatal(err)
	}
	return string(merged)
}

// Each file of config/envoy, alone, is taken by the real Envoy in the places that it names, without a deprecated field.
func TestEnvoyTakesEachSample(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(deployedDir, "envoy.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, sample := range envoySamples(t) {
		file := filepath.Join(t.TempDir(), "envoy.yaml")
		if err := os.WriteFile(file, []byte(withSamples(t, string(text), []envoySample{sample})), 0o600); err != nil {
			t.Fatal(err)
		}
		said, err := exec.Command(envoyPath, "--mode", "validate", "-c", file, "-l", "warning").CombinedOutput()
		if err != nil || strings.Contains(string(said), "deprecated") {
			t.Errorf("%s: Envoy does not take this: %v\n%s", sample.name, err, said)
		}
	}
}
