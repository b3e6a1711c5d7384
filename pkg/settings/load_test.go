package settings

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// load loads settings from a file with this text, an environment and flags,
// in a directory of its own.
func load(t *testing.T, file string, environment []string, args ...string) (*Settings, error) {
	t.Helper()
	t.Chdir(t.TempDir())
	if file != "" {
		write(t, "config/ratelimitd.yaml", file)
	}
	for _, variable := range environment {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags)
	faults, help := ParseFlags(flags, args)
	if help {
		t.Error("takes something for a call for help")
	}
	return Load(Source{Flags: flags, Faults: faults, CheckURL: checkURL})
}

// checkURL stands for the parser of package backend.
func checkURL(text string) error {
	if !strings.HasPrefix(text, "redis://") {
		return errors.New("is not where Redis can be")
	}
	return nil
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)); err != nil {
		t.Fatal(err)
	}
}

func TestNothingGivesTheDefaults(t *testing.T) {
	got, err := load(t, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got.Values() {
		if v.Text != All()[i].Default && v.Text != strings.TrimSuffix(All()[i].Default, "0s") && v.Name != "grpc_connection_age" && v.Name != "grpc_connection_age_grace" {
			t.Errorf("%s is %q by default, want %q", v.Name, v.Text, All()[i].Default)
		}
	}
	got.origins = nil
	if !reflect.DeepEqual(got, Default()) {
		t.Errorf("Load gives %+v, Default %+v", got, Default())
	}
	if got.GRPCAddress != ":8081" || got.HTTPAddress != ":8080" || got.AdminAddress != "127.0.0.1:6070" || got.Store != "memory" {
		t.Errorf("defaults that others rely on have changed: %+v", got)
	}
}

func TestPrecedence(t *testing.T) {
	const file = "redis_pool_size: 2\n"
	env := []string{"RATELIMITD_REDIS_POOL_SIZE=3"}
	for _, test := range []struct {
		name   string
		file   string
		env    []string
		args   []string
		want   int
		origin string
	}{
		{"default", "", nil, nil, 32, "default"},
		{"file", file, nil, nil, 2, "config/ratelimitd.yaml:1"},
		{"environment over file", file, env, nil, 3, "RATELIMITD_REDIS_POOL_SIZE"},
		{"flag over environment", file, env, []string{"--redis-pool-size=4"}, 4, "--redis-pool-size"},
		{"flag over file", file, nil, []string{"--redis-pool-size", "4"}, 4, "--redis-pool-size"},
		{"environment over default", "", env, nil, 3, "RATELIMITD_REDIS_POOL_SIZE"},
		{"an empty variable is none", file, []string{"RATELIMITD_REDIS_POOL_SIZE="}, nil, 2, "config/ratelimitd.yaml:1"},
		{"null in the file is none", "redis_pool_size:\n", nil, nil, 32, "default"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := load(t, test.file, test.env, test.args...)
			if err != nil {
				t.Fatal(err)
			}
			if got.RedisPoolSize != test.want {
				t.Errorf("pool size %d, want %d", got.RedisPoolSize, test.want)
			}
			for _, v := range got.Values() {
				if v.Name == "redis_pool_size" && v.Origin != test.origin {
					t.Errorf("origin %q, want %q", v.Origin, test.origin)
				}
			}
		})
	}
}

func TestWhereTheFileIs(t *testing.T) {
	other := filepath.Join(t.TempDir(), "other.yaml")
	write(t, other, "store: redis\n")
	third := filepath.Join(t.TempDir(), "third.yaml")
	write(t, third, "log_format: json\n")
	if got, err := load(t, "", []string{"RATELIMITD_CONFIG=" + other}); err != nil || got.Store != "redis" {
		t.Errorf("RATELIMITD_CONFIG: %+v, %v", got, err)
	}
	if got, err := load(t, "", []string{"RATELIMITD_CONFIG=" + other}, "--config="+third); err != nil || got.Store != "memory" || got.LogFormat != "json" {
		t.Errorf("--config: %+v, %v", got, err)
	}
}

func TestEveryKindOfValue(t *testing.T) {
	got, err := load(t, `
grpc_address: "127.0.0.1:0"
admin_address: off
grpc_max_message: 16MiB
http_max_body: 4096
redis_url: redis://a:1,b:2
store_timeout: 20ms
body: true
`, []string{"RATELIMITD_STORE=redis"}, "--dynamic-metadata", "--grpc-connection-age=0", "--policies=/etc/p")
	if err != nil {
		t.Fatal(err)
	}
	want := Default()
	want.GRPCAddress, want.AdminAddress = "127.0.0.1:0", Off
	want.GRPCMaxMessage, want.HTTPMaxBody = 16<<20, 4096
	want.RedisURL = "redis://a:1,b:2"
	want.StoreTimeout, want.Body = 20*time.Millisecond, true
	want.Store, want.DynamicMetadata, want.GRPCConnectionAge, want.Policies = "redis", true, 0, "/etc/p"
	if got.origins = nil; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

func TestVariablesOfKubernetesAreIgnored(t *testing.T) {
	got, err := load(t, "", []string{
		"RATELIMITD_PORT=tcp://10.96.7.3:8081",
		"RATELIMITD_SERVICE_HOST=10.96.7.3",
		"RATELIMITD_SERVICE_PORT=8081",
		"RATELIMITD_SERVICE_PORT_GRPC=8081",
		"RATELIMITD_SERVICE_PORT_HTTP_ADMIN=6070",
		"RATELIMITD_PORT_8081_TCP=tcp://10.96.7.3:8081",
		"RATELIMITD_PORT_8081_TCP_PROTO=tcp",
		"RATELIMITD_PORT_8081_TCP_PORT=8081",
		"RATELIMITD_PORT_8081_TCP_ADDR=10.96.7.3",
		"RATELIMITD_PORT_53_UDP_ADDR=10.96.7.3",
		"RATELIMITD_ADMIN_SERVICE_HOST=10.96.7.4", // of a Service called ratelimitd-admin
		"RATELIMITD_ADMIN_PORT=tcp://10.96.7.4:6070",
	})
	if err != nil {
		t.Fatal(err)
	}
	if got.origins = nil; !reflect.DeepEqual(got, Default()) {
		t.Errorf("they changed something: %+v", got)
	}
	for _, row := range All() {
		if injected.MatchString(row.Env()) {
			t.Errorf("Kubernetes may set %s by itself", row.Env())
		}
	}
}

// What the files of passwords hold is read by who needs it, and only looked at here.
func TestThePasswordFiles(t *testing.T) {
	path := filepath.Join(t.TempDir(), "password")
	write(t, path, "hunter2\n")
	got, err := load(t, "", []string{"RATELIMITD_REDIS_PASSWORD_FILE=" + path, "RATELIMITD_REDIS_SENTINEL_PASSWORD_FILE=" + path})
	if err != nil || got.RedisPasswordFile != path || got.RedisSentinelPasswordFile != path || got.RedisPassword != "" {
		t.Errorf("files %q and %q, %v", got.RedisPasswordFile, got.RedisSentinelPasswordFile, err)
	}
}

func TestTheKeyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "key")
	write(t, path, "0123456789abcdef\n")
	got, err := load(t, "hash_values: true", []string{"RATELIMITD_HASH_VALUES_KEY_FILE=" + path})
	if err != nil || got.HashValuesKey.Reveal() != "0123456789abcdef" {
		t.Errorf("key %q, %v", got.HashValuesKey.Reveal(), err)
	}
}

func TestDocumentedNamesAreRegular(t *testing.T) {
	seen := map[string]bool{}
	for _, row := range All() {
		if row.Name == "" || row.Doc == "" || row.Group == "" || !strings.HasSuffix(row.Doc, ".") {
			t.Errorf("%+v is not documented", row)
		}
		if row.Name != strings.ToLower(row.Name) || seen[row.Name] {
			t.Errorf("the name %s is not in lower case, or used twice", row.Name)
		}
		seen[row.Name] = true
	}
	if fields := reflect.TypeFor[Settings]().NumField() - 2; fields != len(All()) {
		t.Errorf("Settings has %d fields, the table %d rows", fields, len(All()))
	}
}
