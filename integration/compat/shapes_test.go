package compat

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
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

// checkFour checks the four variants that the reference's tests have on two Redis, which all of them share.
func checkFour(t *testing.T, what string, main, perSecond place, shared ...string) {
	t.Helper()
	for _, v := range []variant{
		{name: "WithoutPerSecondRedis" + what},
		{name: "WithPerSecondRedis" + what, perSecond: true},
		{name: "WithoutPerSecondRedis" + what + "WithLocalCache", cached: true},
		{name: "WithPerSecondRedis" + what + "WithLocalCache", perSecond: true, cached: true},
	} {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			v.check(t, main, perSecond, slices.Concat(withPolicies(t), shared, []string{"CACHE_KEY_PREFIX=" + v.name})...)
		})
	}
}

func TestBasicAuthConfig(t *testing.T) {
	t.Parallel()
	options := redistest.Options{Password: password}
	checkFour(t, "Auth", single(t, options), single(t, options))
}

// single is one server.
func single(t *testing.T, options redistest.Options) place {
	t.Helper()
	p := place{"SOCKET_TYPE=tcp", "URL=" + redistest.Start(t, options).Address}
	if options.Password != "" {
		p = append(p, "AUTH="+options.Password)
	}
	if options.TLS {
		p = append(p, "TLS=true")
	}
	return p
}

func TestBasicAuthConfigWithRedisCluster(t *testing.T) {
	t.Parallel()
	checkFour(t, "Auth", cluster(t), cluster(t))
}

// cluster is a Redis Cluster with a password.
func cluster(t *testing.T) place {
	t.Helper()
	nodes := redistest.StartCluster(t, redistest.Options{Password: password})
	return place{"TYPE=cluster", "SOCKET_TYPE=tcp", "URL=" + strings.Join(nodes.Addresses(), ","), "AUTH=" + password, "PIPELINE_WINDOW=150us", "PIPELINE_LIMIT=8"}
}

func TestBasicAuthConfigWithRedisSentinel(t *testing.T) {
	t.Parallel()
	checkFour(t, "Auth", sentinel(t), sentinel(t))
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
	encrypted := func(t *testing.T, clients string) place {
		t.Helper()
		return single(t, redistest.Options{TLS: true, Certificates: files, Password: password, Config: []string{"tls-auth-clients " + clients}})
	}
	trust := "REDIS_TLS_CACERT=" + files.CA
	checkFour(t, "TLS", encrypted(t, "no"), encrypted(t, "no"), trust)
	v := variant{name: "WithoutPerSecondRedisTLSWithClientCert"}
	t.Run(v.name, func(t *testing.T) {
		t.Parallel()
		main := encrypted(t, "yes")
		v.check(t, main, nil, append(withPolicies(t), trust, "REDIS_TLS_CLIENT_CERT="+files.ClientCert, "REDIS_TLS_CLIENT_KEY="+files.ClientKey)...)
		refused(t, "the store does not answer", append(main.variables("REDIS_"), trust)...) // the words depend on who is first to notice
	})
}

// refused expects that the program does not become ready, since of Redis it gets this.
func refused(t *testing.T, reason string, env ...string) {
	t.Helper()
	s := launch(t, "ratelimit", nil, env)
	waitFor(t, reason, func() bool { return strings.Contains(s.Log.String(), reason) })
	if code := s.health(); code == http.StatusOK {
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
	<-without.Ended
	if text := without.Log.String(); without.Cmd.ProcessState.Success() || !strings.Contains(text, "auth.old: no such file or directory") {
		t.Errorf("it ends with %v:\n%s", without.Cmd.ProcessState, text)
	}
}
