package compat

import (
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

func mustLoad(t *testing.T, environ ...string) (*Settings, []Note) {
	t.Helper()
	s, notes, err := Load(environ)
	if err != nil {
		t.Fatal(err)
	}
	return s, notes
}

// Without any variable it is as envoyproxy/ratelimit is without any, but for the debug pages.
func TestDefaults(t *testing.T) {
	s, notes := mustLoad(t)
	for what, row := range map[string][2]string{
		"HTTP":          {string(s.HTTPAddress), "0.0.0.0:8080"},
		"gRPC":          {string(s.GRPCAddress), "0.0.0.0:8081"},
		"debug":         {string(s.AdminAddress), "127.0.0.1:6070"},
		"Redis":         {s.RedisURL.Reveal(), "unix:///var/run/nutcracker/ratelimit.sock"},
		"log level":     {s.LogLevel, "warn"},
		"counting":      {s.Counting, settings.CountingReference},
		"store":         {s.Store, settings.StoreRedis},
		"control plane": {s.XDSServer, ""},
		"files":         {s.Files.String(), "none"},
		"grace":         {s.GRPCConnectionAgeGrace.String(), time.Hour.String()},
		"policy files":  {s.PoliciesMaxSize.String(), "64MiB"},
	} {
		if row[0] != row[1] {
			t.Errorf("%s: %s, want %s", what, row[0], row[1])
		}
	}
	if s.Headers != nil || s.PerSecond != nil || s.NeedsPolicies || !s.Stats.Statsd || len(notes) != 0 {
		t.Errorf("%+v, notes %v", s, notes)
	}
}

func TestWhereRedisIs(t *testing.T) {
	for _, row := range []struct{ environ, want string }{
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379", "redis://redis:6379"},
		{"REDIS_SOCKET_TYPE=tcp REDIS_URL=redis:6379 REDIS_TLS=true", "rediss://redis:6379"},
		{"REDIS_URL=redis://u:p@redis:6379/2", "redis://u:p@redis:6379/2"},
		{"REDIS_URL=redis://redis:6379 REDIS_TLS=1", "rediss://redis:6379"},
		{"REDIS_URL=/run/redis.sock", "unix:///run/redis.sock"},
		{"REDIS_TYPE=cluster REDIS_URL=a:1,b:2", "redis+cluster://a:1,b:2"},
		{"REDIS_TYPE=CLUSTER REDIS_URL=a:1 REDIS_TLS=true", "rediss+cluster://a:1"},
		{"REDIS_TYPE=Sentinel REDIS_URL=mymaster,a:1,b:2", "redis+sentinel://a:1,b:2/mymaster"},
	} {
		s, _ := mustLoad(t, strings.Fields(row.environ)...)
		if got := s.RedisURL.Reveal(); got != row.want {
			t.Errorf("%s: %s, want %s", row.environ, got, row.want)
		}
	}
	s, _ := mustLoad(t, "REDIS_AUTH=user:a:b", "REDIS_SENTINEL_AUTH=secret", "REDIS_PERSECOND=true", "REDIS_PERSECOND_SOCKET_TYPE=tcp", "REDIS_PERSECOND_URL=second:1", "REDIS_PERSECOND_AUTH=other")
	if s.RedisUsername != "user" || s.RedisPassword.Reveal() != "a:b" || s.RedisSentinelUsername != "" || s.RedisSentinelPassword.Reveal() != "secret" {
		t.Errorf("logs in as %q, %q", s.RedisUsername, s.RedisPassword.Reveal())
	}
	if second := s.PerSecond; second == nil || second.RedisURL.Reveal() != "redis://second:1" || second.RedisUsername != "" || second.RedisPassword.Reveal() != "other" || second.RedisSentinelPassword != "" {
		t.Errorf("the second Redis: %+v", second)
	}
}

// A password may be in a file, and a certificate for another host is still of an authority.
func TestRedisSecrets(t *testing.T) {
	s, _ := mustLoad(t,
		"REDIS_AUTH_FILE=/a", "REDIS_SENTINEL_AUTH_FILE=/b", "REDIS_PERSECOND=true", "REDIS_PERSECOND_AUTH_FILE=/c", "REDIS_PERSECOND_TLS=true",
		"REDIS_TLS_CACERT=ca.pem", "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION=true")
	if s.RedisPasswordFile != "/a" || s.RedisSentinelPasswordFile != "/b" || !s.RedisPasswordFilesHaveUser || s.RedisTLSAnyName {
		t.Errorf("the first: %+v", s.Settings)
	}
	if second := s.PerSecond; second.RedisPasswordFile != "/c" || second.RedisSentinelPasswordFile != "" || second.RedisTLSCAFile != "ca.pem" || !second.RedisTLSAnyName || second.RedisTLSSkipVerify {
		t.Errorf("the second: %+v", second)
	}
	for auth, want := range map[string]string{
		"REDIS_AUTH":          "REDIS_AUTH_FILE: and REDIS_AUTH are two passwords; set one of them",
		"REDIS_SENTINEL_AUTH": "REDIS_SENTINEL_AUTH_FILE: and REDIS_SENTINEL_AUTH are two passwords; set one of them",
	} {
		if _, _, err := Load([]string{auth + "=hunter2", auth + "_FILE=/a"}); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

func TestGRPCOverTLS(t *testing.T) {
	files := []string{"GRPC_SERVER_TLS_CERT=c.pem", "GRPC_SERVER_TLS_KEY=k.pem", "GRPC_CLIENT_TLS_CACERT=ca.pem", "GRPC_CLIENT_TLS_SAN=envoy"}
	s, _ := mustLoad(t, append(files, "GRPC_SERVER_USE_TLS=true")...)
	if s.GRPCTLSCertFile != "c.pem" || s.GRPCTLSKeyFile != "k.pem" || s.GRPCTLSClientCAFile != "ca.pem" || s.GRPCTLSClientSAN != "envoy" {
		t.Errorf("files %q, %q, %q, name %q", s.GRPCTLSCertFile, s.GRPCTLSKeyFile, s.GRPCTLSClientCAFile, s.GRPCTLSClientSAN)
	}
	if s, _ := mustLoad(t, files...); s.GRPCTLSCertFile != "" || s.GRPCTLSClientSAN != "" {
		t.Error("TLS without being asked for")
	}
	for missing, want := range map[string]string{
		"GRPC_SERVER_TLS_KEY=":    "GRPC_SERVER_USE_TLS: needs GRPC_SERVER_TLS_CERT and GRPC_SERVER_TLS_KEY",
		"GRPC_CLIENT_TLS_CACERT=": "GRPC_CLIENT_TLS_SAN: needs GRPC_CLIENT_TLS_CACERT, or nobody vouches for the name",
	} {
		_, _, err := Load(append(files, "GRPC_SERVER_USE_TLS=true", missing))
		if err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", missing, err, want)
		}
	}
}

func TestWherePoliciesAre(t *testing.T) {
	for _, row := range []struct {
		environ string
		want    Files
	}{
		{"RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit", Files{Dir: "/data/ratelimit", Within: "config", Dotted: true, Optional: true}},
		{"RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit RUNTIME_IGNOREDOTFILES=true RUNTIME_WATCH_ROOT=false", Files{Dir: "/data/ratelimit/config"}},
		{"RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=r RUNTIME_WATCH_ROOT=false RUNTIME_APPDIRECTORY=", Files{Dir: "/data/r/", Dotted: true}},
		{"RUNTIME_ROOT=/data", Files{Dotted: true, Optional: true}},
		{"CONFIG_TYPE=GRPC_XDS_SOTW RUNTIME_ROOT=/data RUNTIME_SUBDIRECTORY=ratelimit", Files{Dotted: true, Optional: true}},
	} {
		if s, _ := mustLoad(t, strings.Fields(row.environ)...); s.Files != row.want {
			t.Errorf("%s: %+v, want %+v", row.environ, s.Files, row.want)
		}
	}
}

// What makes no sense here is said, once each, in the order of the table.
func TestNotes(t *testing.T) {
	_, notes := mustLoad(t, "REDIS_PIPELINE_WINDOW=1ms", "EXPIRATION_JITTER_MAX_SECONDS=0", "PORT=9", "SOMETHING=else", "REDIS_PIPELINE_LIMIT=")
	var names []string
	for _, note := range notes {
		names = append(names, note.Name)
		if note.Reason == "" {
			t.Errorf("%s: no reason", note.Name)
		}
	}
	if got := strings.Join(names, " "); got != "EXPIRATION_JITTER_MAX_SECONDS REDIS_PIPELINE_WINDOW" {
		t.Errorf("notes on %s", got)
	}
}

// All faults come at once, and none shows a secret.
func TestFaults(t *testing.T) {
	_, _, err := Load([]string{
		"PORT=http", "GRPC_PORT=70000", "LOG_LEVEL=loud", "CONFIG_TYPE=file", "BACKEND_TYPE=etcd", "REDIS_TYPE=ring", "REDIS_TIMEOUT=5",
		"REDIS_AUTH=hunter2", "REDIS_POOL_ON_EMPTY_BEHAVIOR=CREATE", "CACHE_KEY_PREFIX={a}", "NEAR_LIMIT_RATIO=2", "EXTRA_TAGS=a",
		"LIMIT_RESPONSE_HEADERS_ENABLED=true", "LIMIT_RESET_HEADER=a b", "SHADOW_MODE=on",
	})
	if err == nil {
		t.Fatal("no error")
	}
	want := `PORT: "http" is not a whole number
EXTRA_TAGS: "a" is not name:value,name:value`
	text := err.Error()
	for line := range strings.SplitSeq(want, "\n") {
		if !strings.Contains(text, line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
	if n := strings.Count(text, "\n") + 1; n != 13 || strings.Contains(text, "hunter2") {
		t.Errorf("%d faults:\n%s", n, text)
	}
}

// Memcached is where one of two variables says, and nothing of Redis matters then.
func TestMemcache(t *testing.T) {
	s, notes := mustLoad(t, "BACKEND_TYPE=Memcache", "MEMCACHE_HOST_PORT=a:1, b:2", "REDIS_TYPE=ring", "CACHE_KEY_PREFIX=rl:", "LOCAL_CACHE_SIZE_IN_BYTES=1",
		"MEMCACHE_TLS=true", "MEMCACHE_TLS_CACERT=ca.pem", "MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION=true")
	if s.Store != settings.StoreMemcached || s.MemcachedServers != "a:1,b:2" || s.MemcachedConnections != 16 || s.KnownOverKeys == 0 ||
		!s.MemcachedTLS || s.MemcachedTLSCAFile != "ca.pem" || !s.MemcachedTLSAnyName || len(notes) > 0 {
		t.Errorf("%+v, %v", s.Settings, notes)
	}
	s, _ = mustLoad(t, "BACKEND_TYPE=memcache", "MEMCACHE_SRV=_m._tcp.example.com", "MEMCACHE_SRV_REFRESH=5s", "MEMCACHE_MAX_IDLE_CONNS=100")
	if s.MemcachedSRV != "_m._tcp.example.com" || s.MemcachedSRVRefresh != 5*time.Second || s.MemcachedConnections != 100 {
		t.Errorf("%+v", s.Settings)
	}
	for environ, want := range map[string]string{
		"":                         "BACKEND_TYPE: memcache needs MEMCACHE_HOST_PORT or MEMCACHE_SRV, which say where it is",
		"MEMCACHE_SRV=example.com": `MEMCACHE_SRV: "example.com" is not _service._proto.name`,
		"MEMCACHE_SRV=_a._tcp.b MEMCACHE_HOST_PORT=a:1":      "MEMCACHE_SRV: and MEMCACHE_HOST_PORT both say where memcached is; set one of them",
		"MEMCACHE_HOST_PORT=a:1 CACHE_KEY_PREFIX=a\u00a0\tb": "CACHE_KEY_PREFIX: \"a\\u00a0\\tb\" has a blank, or more than 200 bytes, which memcached does not take in a key",
	} {
		if _, _, err := Load(append(strings.Split(environ, " "), "BACKEND_TYPE=memcache")); err == nil || err.Error() != want {
			t.Errorf("%s:\n got %v\nwant %s", environ, err, want)
		}
	}
}

// Who looks at the settings sees where each comes from, and no secret.
func TestValues(t *testing.T) {
	s, _ := mustLoad(t, "PORT=9", "REDIS_URL=redis://u:hunter2@redis:6379", "REDIS_AUTH=hunter2", "CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=token:hunter2")
	values := map[string]Value{}
	for _, v := range s.Values() {
		values[v.Name] = v
		if strings.Contains(v.Text, "hunter2") {
			t.Errorf("%s shows a secret", v.Name)
		}
	}
	if values["PORT"] != (Value{"PORT", "9", "environment"}) || values["GRPC_PORT"] != (Value{"GRPC_PORT", "8081", "default"}) || values["REDIS_URL"].Text != "redis://u:********@redis:6379" {
		t.Errorf("%v", values)
	}
}

// FuzzLoad: whatever the environment holds, it loads or says what is wrong with which variable, and never shows a secret.
func FuzzLoad(f *testing.F) {
	f.Add("REDIS_TYPE", "sentinel", "REDIS_URL", "a")
	f.Add("CONFIG_TYPE", "GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_NODE_METADATA", "a=b,c")
	f.Add("EXTRA_TAGS", "a:b,c:d:e", "STATS_FLUSH_INTERVAL", "1e9h")
	f.Add("NEAR_LIMIT_RATIO", "NaN", "PORT", "-1")
	const secret = "vErYsEcReT"
	f.Fuzz(func(t *testing.T, name, value, other, text string) {
		s, notes, err := Load([]string{
			name + "=" + value, other + "=" + text, "REDIS_AUTH=" + secret, "REDIS_PERSECOND_AUTH=u:" + secret,
			"CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS=" + secret + ":" + secret + ":",
		})
		if err == nil || s != nil || notes != nil {
			t.Fatal("the headers are no pairs, yet it loads")
		}
		if strings.Contains(err.Error(), secret) && !strings.Contains(name+value+other+text, secret) {
			t.Errorf("shows the secret: %v", err)
		}
	})
}

// The table is what the documentation is made of.
func TestTableIsWhole(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range All() {
		if seen[row.Name] || row.Doc == "" || row.Group == "" || (row.Fate == Same) != (row.How == "") {
			t.Errorf("%+v", row)
		}
		seen[row.Name] = true
	}
	if len(seen) < 100 {
		t.Errorf("%d rows", len(seen))
	}
}

// What is said of a file names the variable that it stands in.
func TestFilesAreNamed(t *testing.T) {
	s, _ := mustLoad(t)
	for _, prefix := range [...]string{"grpc_tls_", "xds_tls_", "redis_tls_", "memcached_tls_"} {
		for _, file := range [...]string{"cert_file", "key_file"} {
			if got := s.Called(prefix + file); !strings.Contains(got, "_TLS_") {
				t.Errorf("%s is called %s", prefix+file, got)
			}
		}
	}
	for setting, want := range map[string]string{"grpc_tls_client_ca_file": "GRPC_CLIENT_TLS_CACERT", "memcached_tls_ca_file": "MEMCACHE_TLS_CACERT"} {
		if got := s.Called(setting); got != want {
			t.Errorf("%s is called %s, want %s", setting, got, want)
		}
	}
	_, _, err := Load([]string{"CONFIG_TYPE=GRPC_XDS_SOTW", "CONFIG_GRPC_XDS_SERVER_USE_TLS=true", "CONFIG_GRPC_XDS_CLIENT_TLS_CERT=/certs/tls.crt"})
	if want := "CONFIG_GRPC_XDS_CLIENT_TLS_CERT, CONFIG_GRPC_XDS_CLIENT_TLS_KEY: go together; set both or none"; err == nil || err.Error() != want {
		t.Errorf("a certificate without its key: %v", err)
	}
}
