package compat

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
)

// policy limits any value of the key k to a number a day.
func policy(domain, number string) string {
	return "domain: " + domain + "\ndescriptors: [{key: k, rate_limit: {unit: day, requests_per_unit: " + number + "}}]\n"
}

// askFor asks for a value of a domain's k.
func (s *server) askFor(t *testing.T, domain string) (*rlsv3.RateLimitResponse, error) {
	t.Helper()
	return s.ask(t, &rlsv3.RateLimitRequest{Domain: domain, Descriptors: []*ratelimitv3.RateLimitDescriptor{
		{Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "k", Value: "v"}}},
	}})
}

// limited reports whether a request for a domain's k is over its limit.
func (s *server) limited(t *testing.T, domain string) bool {
	t.Helper()
	response, err := s.askFor(t, domain)
	return err == nil && response.GetOverallCode() == rlsv3.RateLimitResponse_OVER_LIMIT
}

// limit is the number of requests that a domain's k may make, 0 where it has no limit.
func (s *server) limit(t *testing.T, domain string) uint32 {
	t.Helper()
	response, err := s.askFor(t, domain)
	if err != nil {
		t.Fatal(err)
	}
	return response.GetStatuses()[0].GetCurrentLimit().GetRequestsPerUnit()
}

func (s *server) waitLimit(t *testing.T, domain string, want uint32) {
	t.Helper()
	waitFor(t, "the limit of "+domain, func() bool { return s.limit(t, domain) == want })
}

// With RUNTIME_WATCH_ROOT the root is a link, which is changed for that to another tree, and all below the subdirectory is read
// whose name begins as RUNTIME_APPDIRECTORY says.
func TestWatchRoot(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "v1/ratelimit/config/a.yaml"), policy("a", "1"))
	write(t, filepath.Join(dir, "v1/ratelimit/config/team/b"), policy("b", "1"))
	write(t, filepath.Join(dir, "v1/ratelimit/config.d/c.yaml"), policy("c", "1"))
	write(t, filepath.Join(dir, "v1/ratelimit/other/d.yaml"), "no policy")
	write(t, filepath.Join(dir, "v2/ratelimit/config/a.yaml"), policy("a", "2"))
	current := filepath.Join(dir, "current")
	if err := os.Symlink("v1", current); err != nil {
		t.Fatal(err)
	}
	s := start(t, append(redis(t), "RUNTIME_ROOT="+current, "RUNTIME_SUBDIRECTORY=ratelimit")...)
	for _, domain := range []string{"a", "b", "c"} {
		if got := s.limit(t, domain); got != 1 {
			t.Errorf("domain %s: limit %d", domain, got)
		}
	}
	if err := os.Symlink("v2", current+".new"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(current+".new", current); err != nil {
		t.Fatal(err)
	}
	s.waitLimit(t, "a", 2)
	if got := s.limit(t, "b"); got != 0 {
		t.Errorf("domain b is still there: limit %d", got)
	}

	// A change in place is seen as well, and a tree that is gone lifts no limit.
	write(t, filepath.Join(dir, "v2/ratelimit/config/deep/e.yaml"), policy("e", "5"))
	s.waitLimit(t, "e", 5)
	if err := os.Remove(current); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "a word about it", func() bool { return strings.Contains(s.Log.String(), "the last good rules stay in force") })
	if got := s.limit(t, "a"); got != 2 {
		t.Errorf("limit %d after the tree went away", got)
	}
}

// With RUNTIME_WATCH_ROOT a tree that is not there yet is one without policies.
func TestWatchRootWithoutFiles(t *testing.T) {
	dir := t.TempDir()
	s := start(t, append(redis(t), "RUNTIME_ROOT="+filepath.Join(dir, "current"), "RUNTIME_SUBDIRECTORY=ratelimit")...)
	if got := s.limit(t, "a"); got != 0 {
		t.Errorf("limit %d", got)
	}
	write(t, filepath.Join(dir, "current/ratelimit/config/a.yaml"), policy("a", "1"))
	s.waitLimit(t, "a", 1)
}

// The configuration of the reference's own test: with the root not watched, the directory is.
func TestBasicReloadConfig(t *testing.T) {
	dir := t.TempDir()
	config := filepath.Join(dir, "ratelimit/config")
	write(t, filepath.Join(config, "a.yaml"), policy("a", "1"))
	s := start(t, append(redis(t), "RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false")...)
	t.Run("BasicWithoutWatchRoot", func(t *testing.T) {
		if got := s.limit(t, "a"); got != 1 {
			t.Errorf("limit %d", got)
		}
	})
	t.Run("ReloadWithoutWatchRoot", func(t *testing.T) {
		write(t, filepath.Join(config, "more/b.yaml"), policy("b", "2"))
		s.waitLimit(t, "b", 2)
		if err := os.Rename(filepath.Join(config, "more/b.yaml"), filepath.Join(dir, "b.yaml")); err != nil {
			t.Fatal(err)
		}
		s.waitLimit(t, "b", 0)
		if err := os.Remove(filepath.Join(config, "a.yaml")); err != nil {
			t.Fatal(err)
		}
		s.waitLimit(t, "a", 1) // the last files of a directory do not go by themselves
	})
}

// A mounted ConfigMap, as Istio's sample and Kubernetes have it: links into a directory that another one replaces.
func TestConfigMap(t *testing.T) {
	for _, ignore := range []string{"true", "false"} {
		t.Run("RUNTIME_IGNOREDOTFILES="+ignore, func(t *testing.T) {
			dir := t.TempDir()
			config := filepath.Join(dir, "ratelimit/config")
			link := func(target, name string) {
				if err := os.Symlink(target, filepath.Join(dir, "link")); err != nil {
					t.Fatal(err)
				}
				if err := os.Rename(filepath.Join(dir, "link"), filepath.Join(config, name)); err != nil {
					t.Fatal(err)
				}
			}
			write(t, filepath.Join(config, "..2026_01/config.yaml"), policy("a", "1"))
			link("..2026_01", "..data")
			link("..data/config.yaml", "config.yaml")
			s := start(t, append(redis(t), "RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_WATCH_ROOT=false", "RUNTIME_IGNOREDOTFILES="+ignore)...)
			if got := s.limit(t, "a"); got != 1 {
				t.Errorf("limit %d", got)
			}
			write(t, filepath.Join(config, "..2026_02/config.yaml"), policy("a", "2"))
			link("..2026_02", "..data")
			s.waitLimit(t, "a", 2)
		})
	}
}
