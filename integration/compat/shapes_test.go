package compat

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	ratelimitv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/common/ratelimit/v3"
	rlsv3 "github.com/envoyproxy/go-control-plane/envoy/service/ratelimit/v3"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// The password of each Redis, and of the sentinels.
const (
	password         = "password123"
	sentinelPassword = "watch456"
)

// place is where a Redis is, by its variables without their prefix.
type place []string

// variables are those of a place: prefix is REDIS_ or REDIS_PERSECOND_.
func (p place) variables(prefix string) []string {
	all := make([]string, len(p))
	for i, variable := range p {
		all[i] = prefix + variable
	}
	return all
}

// basicOn is the body of TestBasicConfig on a Redis, with and without a local cache.
func basicOn(t *testing.T, main place, shared ...string) {
	t.Helper()
	for name, row := range map[string]struct {
		env    []string
		cached bool
	}{
		"plain":       {},
		"local cache": {env: []string{"LOCAL_CACHE_SIZE_IN_BYTES=1000"}, cached: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			basicWith(t, row.cached, main.variables("REDIS_"), shared, row.env)
		})
	}
}

// basicWith is the body of TestBasicConfig with an environment, on counters of its own.
func basicWith(t *testing.T, cached bool, environments ...[]string) {
	t.Helper()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ratelimit/config/basic.yaml"), basicPolicy)
	write(t, filepath.Join(dir, "ratelimit/config/another.yaml"), anotherPolicy)
	stats := startStatsd(t)
	env := append([]string{"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=ratelimit", "CACHE_KEY_PREFIX=" + t.Name()}, stats.env()...)
	for _, more := range environments {
		env = append(env, more...)
	}
	checkBasic(t, start(t, env...), stats, false, cached)
}

func TestBasicAuthConfig(t *testing.T) {
	t.Parallel()
	basicOn(t, auth(t))
}

// auth is a Redis with a password.
func auth(t *testing.T) place {
	t.Helper()
	return place{"SOCKET_TYPE=tcp", "URL=" + redistest.Start(t, redistest.Options{Password: password}).Address, "AUTH=" + password}
}

func TestBasicAuthConfigWithRedisCluster(t *testing.T) {
	t.Parallel()
	basicOn(t, cluster(t))
}

// cluster is a Redis Cluster with a password.
func cluster(t *testing.T) place {
	t.Helper()
	nodes := redistest.StartCluster(t, redistest.Options{Password: password})
	return place{"TYPE=cluster", "SOCKET_TYPE=tcp", "URL=" + strings.Join(nodes.Addresses(), ","), "AUTH=" + password, "PIPELINE_WINDOW=150us", "PIPELINE_LIMIT=8"}
}

func TestBasicAuthConfigWithRedisSentinel(t *testing.T) {
	t.Parallel()
	basicOn(t, sentinel(t))
}

// sentinel is a master and its sentinel, with passwords of their own.
func sentinel(t *testing.T) place {
	t.Helper()
	watch := redistest.StartSentinel(t, redistest.Options{Password: password, SentinelPassword: sentinelPassword})
	return place{
		"TYPE=sentinel", "SOCKET_TYPE=tcp", "URL=" + redistest.MasterName + "," + watch.Sentinel.Address,
		"AUTH=" + password, "SENTINEL_AUTH=" + sentinelPassword,
	}
}

func TestBasicTLSConfig(t *testing.T) {
	t.Parallel()
	files := redistest.NewCertificates(t, t.TempDir())
	trust := "REDIS_TLS_CACERT=" + files.CA
	basicOn(t, encrypted(t, files, "tls-auth-clients no"), trust)
	t.Run("client certificate", func(t *testing.T) {
		t.Parallel()
		needed := encrypted(t, files, "tls-auth-clients yes").variables("REDIS_")
		basicWith(t, false, needed, []string{trust, "REDIS_TLS_CLIENT_CERT=" + files.ClientCert, "REDIS_TLS_CLIENT_KEY=" + files.ClientKey})
		refused(t, "the store does not answer", append(needed, trust)...) // the words depend on who is first to notice
	})
}

// encrypted is a Redis with TLS and a password.
func encrypted(t *testing.T, files *redistest.Certificates, config ...string) place {
	t.Helper()
	s := redistest.Start(t, redistest.Options{TLS: true, Certificates: files, Password: password, Config: config})
	return place{"SOCKET_TYPE=tcp", "URL=" + s.Address, "TLS=true", "AUTH=" + password}
}

// refused expects that the program does not become ready, since of Redis it gets this.
func refused(t *testing.T, reason string, env ...string) {
	t.Helper()
	s := launch(t, "ratelimit", nil, env)
	waitFor(t, reason, func() bool { return strings.Contains(s.log.String(), reason) })
	if code := s.health(); code == 200 {
		t.Errorf("%d without Redis", code)
	}
}

// TestTLSSkipHostname: the host of Redis is none of those in its certificate. Even when that is allowed, its authority counts.
func TestTLSSkipHostname(t *testing.T) {
	t.Parallel()
	files := redistest.NewCertificates(t, t.TempDir())
	s := redistest.Start(t, redistest.Options{TLS: true, Certificates: files, Config: []string{"bind 127.0.0.1 127.0.0.2"}})
	env := []string{
		"REDIS_SOCKET_TYPE=tcp", fmt.Sprintf("REDIS_URL=127.0.0.2:%d", s.Port), "REDIS_TLS=true",
		"REDIS_TLS_CLIENT_CERT=" + files.ClientCert, "REDIS_TLS_CLIENT_KEY=" + files.ClientKey,
	}
	trust, skip := "REDIS_TLS_CACERT="+files.CA, "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true"
	start(t, append(env, trust, skip)...)
	refused(t, "certificate is valid for 127.0.0.1, not 127.0.0.2", append(env, trust)...)
	refused(t, "certificate signed by unknown authority", append(env, skip)...)
}

// TestAuthFile: the password of Redis changes, and its user with it, while the program counts.
func TestAuthFile(t *testing.T) {
	t.Parallel()
	store, dir := redistest.Start(t, redistest.Options{Password: password}), t.TempDir()
	file := filepath.Join(dir, "secret/auth")
	write(t, file, password+"\n")
	write(t, filepath.Join(dir, "ratelimit/config/another.yaml"), anotherPolicy)
	s := start(t, "RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit", "REDIS_SOCKET_TYPE=tcp", "REDIS_URL="+store.Address, "REDIS_AUTH_FILE="+file)
	awayFrom(time.Hour)
	hit := func(hits uint64) (left uint32, err error) {
		response, err := s.ask(t, &rlsv3.RateLimitRequest{Domain: "another", Descriptors: []*ratelimitv3.RateLimitDescriptor{{
			Entries: []*ratelimitv3.RateLimitDescriptor_Entry{{Key: "key3", Value: "x"}}, HitsAddend: wrapperspb.UInt64(hits),
		}}})
		if err != nil {
			return 0, err
		}
		return response.GetStatuses()[0].GetLimitRemaining(), nil
	}
	if left, err := hit(3); err != nil || left != 7 {
		t.Fatal(left, err)
	}
	write(t, file, "limiter:second\n")
	store.SetLogin(t, "limiter", "second")
	waitFor(t, "an answer", func() bool { _, err := hit(0); return err == nil })
	if left, err := hit(3); err != nil || left != 4 {
		t.Errorf("%d left, %v; want 4", left, err)
	}

	without := launch(t, "ratelimit", nil, []string{"REDIS_AUTH_FILE=" + file + ".old"})
	<-without.ended
	if text := without.log.String(); without.cmd.ProcessState.Success() || !strings.Contains(text, "auth.old: no such file or directory") {
		t.Errorf("it ends with %v:\n%s", without.cmd.ProcessState, text)
	}
}
