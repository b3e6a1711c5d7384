package docs

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/backend"
)

// rightsOf finds the rights that docs/operations.md gives to a user of Redis: one server's, and a Cluster's besides.
func rightsOf(t *testing.T) (rights, cluster []any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs/operations.md"))
	if err != nil {
		t.Fatal(err)
	}
	split := func(pattern string) (words []any) {
		found := regexp.MustCompile(pattern).FindStringSubmatch(strings.ReplaceAll(string(text), "\\\n", " "))
		if found == nil {
			t.Fatalf("docs/operations.md has nothing like %s", pattern)
		}
		for word := range strings.FieldsSeq(found[1]) {
			words = append(words, strings.Trim(word, "'"))
		}
		return words
	}
	return split(`acl setuser ratelimitd (.*)\n`), split("A Cluster needs `(.*?)` besides")
}

// TestRightsAreEnough lets each algorithm decide as a user with these rights, on one server and in a Cluster, and wants Redis to have refused nothing.
func TestRightsAreEnough(t *testing.T) {
	rights, more := rightsOf(t)
	one := redistest.Start(t, redistest.Options{})
	cluster := redistest.StartCluster(t, redistest.Options{})
	for name, shape := range map[string]struct {
		servers []*redistest.Server
		url     string
		rights  []any
	}{
		"one server": {[]*redistest.Server{one}, one.URL(), rights},
		"a Cluster":  {cluster.Masters, cluster.URL(), append(rights, more...)},
	} {
		t.Run(name, func(t *testing.T) {
			for _, server := range shape.servers {
				server.Do(t, append([]any{"acl", "setuser", "ratelimitd"}, shape.rights...)...)
			}
			where, err := backend.ParseRedisURL(shape.url)
			if err != nil {
				t.Fatal(err)
			}
			where.Username, where.Password = "ratelimitd", "secret"
			store, err := backend.NewRedis(backend.RedisOptions{Server: where, ReadTimeout: patience, Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer store.Close()
			for _, a := range algorithm.All {
				useAll(t, store, asksFor(t, a, 20, 40, 1))
			}
			if count := awaitReplicas(t, store); count != 1 {
				t.Errorf("%d replicas, want 1", count)
			}
			for _, server := range shape.servers {
				if refused := server.Do(t, "acl", "log").([]any); len(refused) > 0 {
					t.Errorf("Redis refused %v", refused)
				}
			}
		})
	}
}

// awaitReplicas joins those that share a store, and returns how many there are.
func awaitReplicas(t *testing.T, store *backend.Redis) int {
	t.Helper()
	replicas := backend.JoinReplicas(store, backend.ReplicasOptions{Unmet: 99, Log: slog.New(slog.DiscardHandler)})
	defer replicas.Close()
	for end := time.Now().Add(patience); replicas.Count() == 99 && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	return replicas.Count()
}

// useAll makes a store use every command that it may need for the algorithm of the asks: it charges, is refused, gives back
// some and then all.
func useAll(t *testing.T, store *backend.Redis, asks []algorithm.Ask) {
	t.Helper()
	out := make([]algorithm.Decision, len(asks))
	for _, step := range []struct {
		hits int64
		mode algorithm.Mode
		want algorithm.Outcome
	}{
		{1, algorithm.Charge, algorithm.Allowed},
		{14, algorithm.Charge, algorithm.Allowed},
		{15, algorithm.Charge, algorithm.Denied},
		{5, algorithm.GiveBack, algorithm.Allowed},
		{0, algorithm.Charge, algorithm.Allowed},
		{20, algorithm.GiveBack, algorithm.Allowed},
		{2, algorithm.Charge, algorithm.Allowed},
	} {
		for i := range asks {
			asks[i].Hits, asks[i].Mode = step.hits, step.mode
		}
		store.Decide(context.Background(), asks, out)
		for _, d := range out {
			if d.Outcome != step.want {
				t.Fatalf("%s, %d hits: %v, %v", asks[0].Limit.Algorithm.Name, step.hits, d.Outcome, d.Err)
			}
		}
	}
}
