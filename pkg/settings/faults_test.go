package settings

import (
	"errors"
	"os"
	"strings"
	"testing"
)

// TestFaults holds the whole text of every message.
func TestFaults(t *testing.T) {
	for _, test := range []struct {
		name string
		file string
		env  []string
		args []string
		want string
	}{
		{
			"unknown in the file", "log_level: info\nstor: redis\nport: 1\nStore: redis\nredis_pool: 1\n", nil, nil,
			`config/ratelimitd.yaml:2: "stor" is not a setting; did you mean store?
config/ratelimitd.yaml:3: "port" is not a setting; ratelimitd serve --help lists all
config/ratelimitd.yaml:4: "Store" is not a setting; did you mean store?
config/ratelimitd.yaml:5: "redis_pool" is not a setting; did you mean redis_pool_size?`,
		},
		{
			"twice in the file", "store: redis\nstore: memory\n", nil, nil,
			`config/ratelimitd.yaml:2: store is set twice, first in line 1`,
		},
		{
			"nested in the file", "redis_url:\n  host: a\nbody: [true]\n", nil, nil,
			`config/ratelimitd.yaml:1: redis_url is not a single value; allowed: redis://host:port/db, rediss:// for TLS, unix:///path, redis://host:port,host:port of a Cluster, redis+sentinel://host:port,host:port/name
config/ratelimitd.yaml:3: body is not a single value; allowed: true or false`,
		},
		{
			"no settings in the file", "- store\n", nil, nil,
			`config/ratelimitd.yaml:1: is not a list of settings; write one a line, like store: redis`,
		},
		{
			"no YAML in the file", "store: 'redis\n", nil, nil,
			`config/ratelimitd.yaml: line 2: found unexpected end of stream`,
		},
		{
			"the file in the file", "config: here\n", nil, nil,
			`config/ratelimitd.yaml:1: config cannot be set in the file; use RATELIMITD_CONFIG or --config`,
		},
		{
			"a named file that is not there", "", nil, []string{"--config=no/such.yaml"},
			`no/such.yaml: no such file or directory`,
		},
		{
			"unknown in the environment", "", []string{"RATELIMITD_REDISURL=redis://x", "RATELIMITD_PORTS=1", "RATELIMITD_store=redis"}, nil,
			`RATELIMITD_PORTS: is not a setting; ratelimitd serve --help lists all
RATELIMITD_REDISURL: is not a setting; did you mean RATELIMITD_REDIS_URL?
RATELIMITD_store: is not a setting; did you mean RATELIMITD_STORE?`,
		},
		{
			"ports that Kubernetes did not set", "", []string{"RATELIMITD_PORT=8081", "RATELIMITD_GRPC_PORT=8081"}, nil,
			`RATELIMITD_GRPC_PORT: is not a setting; ratelimitd serve --help lists all
RATELIMITD_PORT: is not a setting; ratelimitd serve --help lists all`,
		},
		{
			"unknown flags", "", nil, []string{"--stor", "redis", "--log-levl=info", "--store=memory"},
			`--stor: is not a flag; did you mean --store?
--log-levl: is not a flag; did you mean --log-level?`,
		},
		{
			"an argument", "", nil, []string{"redis"},
			`command line: unexpected redis`,
		},
		{
			"arguments with secrets", "", nil, []string{"redis_password=hunter2", "redis://u:hunter2@h"},
			`command line: unexpected redis_password=******** redis://u:********@h`,
		},
		{
			"a flag with one dash", "", nil, []string{"-redis-password=hunter2"},
			`-redis-password: is not a flag; those begin with two dashes; did you mean --redis-password?`,
		},
		{
			"a password that YAML takes for an alias", "redis_password: *hunter2\n", nil, nil,
			`config/ratelimitd.yaml: a value that begins with * has to stand in quotes`,
		},
		{
			"a flag without its value", "", nil, []string{"--store"},
			`command line: flag needs an argument: --store`,
		},
		{
			"choices", "store: rediss\n", []string{"RATELIMITD_COUNTING=exact"}, []string{"--log-level=warning"},
			`RATELIMITD_COUNTING: "exact" is not one of precise, reference
config/ratelimitd.yaml:1: store: "rediss" is not one of memory, redis, memcached; did you mean redis?
--log-level: "warning" is not one of debug, info, warn, error; did you mean warn?`,
		},
		{
			"numbers", "redis_pool_size: 0\nmemory_max_keys: many\n", nil, []string{"--max-descriptors=1000001"},
			`--max-descriptors: 1000001 is too much, from 1 to 65536
config/ratelimitd.yaml:2: memory_max_keys: "many" is no number; write a whole number, from 1 to 1000000000
config/ratelimitd.yaml:1: redis_pool_size: 0 is too little, from 1 to 10000`,
		},
		{
			"durations", "store_timeout: 20\ndrain_delay: -1s\n", nil, nil,
			`config/ratelimitd.yaml:1: store_timeout: "20" is no duration; write a number with a unit, like 20ms, 5s or 1h, from 1ms to 1m
config/ratelimitd.yaml:2: drain_delay: -1s is too little, from 0s to 1h`,
		},
		{
			"sizes", "http_max_body: 1MB\n", []string{"RATELIMITD_GRPC_MAX_MESSAGE=2GiB"}, nil,
			`RATELIMITD_GRPC_MAX_MESSAGE: 2GiB is too much, from 1KiB to 1GiB
config/ratelimitd.yaml:1: http_max_body: "1MB" is no size; write bytes, or a number with KiB, MiB or GiB, from 1KiB to 1GiB`,
		},
		{
			"switches", "body: maybe\n", nil, []string{"--grpc-reflection=yes"},
			`--grpc-reflection: "yes" is not true or false
config/ratelimitd.yaml:1: body: "maybe" is not true or false`,
		},
		{
			"fractions", "tracing_sampling_rate: 10%\n", nil, nil,
			`config/ratelimitd.yaml:1: tracing_sampling_rate: "10%" is no fraction; write a number from 0 to 1`,
		},
		{
			"addresses", "", []string{"RATELIMITD_GRPC_ADDRESS=8081", "RATELIMITD_HTTP_ADDRESS=:http"}, []string{"--admin-address="},
			`RATELIMITD_GRPC_ADDRESS: "8081" is no address; write host:port, or :port for every interface, or unix:path for a unix socket
RATELIMITD_HTTP_ADDRESS: ":http" is no address; write host:port, or :port for every interface
--admin-address: "" is no address; write host:port, or :port for every interface, or off`,
		},
		{
			"a name in the file", "region: eu west\n", nil, nil,
			`config/ratelimitd.yaml:1: region: "eu west" is no name; write up to 63 letters, digits, - and _`,
		},
		{
			"a long name", "", []string{"RATELIMITD_REGION=" + strings.Repeat("x", 64)}, nil,
			`RATELIMITD_REGION: "` + strings.Repeat("x", 64) + `" is no name; write up to 63 letters, digits, - and _`,
		},
		{
			"Redis' address", "redis_per_second_url: x\n", []string{"RATELIMITD_REDIS_URL=redis.example:6379"}, nil,
			`RATELIMITD_REDIS_URL: is not where Redis can be
config/ratelimitd.yaml:1: redis_per_second_url: is not where Redis can be`,
		},
		{
			"half a certificate", "redis_tls_cert_file: no.pem\n", nil, nil,
			`redis_tls_cert_file, redis_tls_key_file: go together; set both or none
redis_tls_cert_file: no.pem: no such file or directory`,
		},
		{
			"two passwords", "redis_password: hunter2\nredis_password_file: no.txt\n", nil, nil,
			`redis_password, redis_password_file: are two passwords; set one of them`,
		},
		{
			"no password file", "redis_password_file: no.txt\n", nil, nil,
			`redis_password_file: no.txt: no such file or directory`,
		},
		{
			"a password file without a password", "redis_sentinel_password_file: /dev/null\n", nil, nil,
			`redis_sentinel_password_file: /dev/null: is empty; it has to hold the password`,
		},
		{
			"hashes without a key", "hash_values: true\n", nil, nil,
			`hash_values_key: is missing, and hash_values needs it; write what openssl rand -hex 32 makes, here or into hash_values_key_file`,
		},
		{
			"hashes with a short key", "hash_values: true\n", []string{"RATELIMITD_HASH_VALUES_KEY=hunter2"}, nil,
			`hash_values_key: has 7 bytes, and hash_values needs 16 or more; write what openssl rand -hex 32 makes, here or into hash_values_key_file`,
		},
		{
			"a key without hashes", "hash_values_key_file: /dev/null\n", nil, nil,
			`hash_values_key: is not used while hash_values is false; set both or none`,
		},
		{
			"two keys", "hash_values: true\nhash_values_key: hunter2\nhash_values_key_file: no.key\n", nil, nil,
			`hash_values_key, hash_values_key_file: are two keys; set one of them`,
		},
		{
			"no key file", "hash_values: true\nhash_values_key_file: no.key\n", nil, nil,
			`hash_values_key_file: no.key: no such file or directory`,
		},
		{
			"admin pages for everybody", "admin_address: :6070\n", nil, nil,
			`admin_address: :6070 is not on loopback, so anybody could see the admin pages and profile the program; set admin_token, admin_token_file, or admin_tls_client_ca_file with admin_tls_cert_file and admin_tls_key_file, or an address like 127.0.0.1:6070`,
		},
		{
			"admin pages with a certificate, for everybody", "admin_tls_cert_file: c.pem\n", []string{"RATELIMITD_ADMIN_ADDRESS=10.0.0.1:6070"}, nil,
			`admin_tls_cert_file, admin_tls_key_file: go together; set both or none
admin_tls_cert_file: c.pem: no such file or directory`,
		},
		{
			"gRPC with a certificate and no key", "grpc_tls_cert_file: c.pem\n", nil, nil,
			`grpc_tls_cert_file, grpc_tls_key_file: go together; set both or none
grpc_tls_cert_file: c.pem: no such file or directory`,
		},
		{
			"who may use gRPC, without TLS", "grpc_tls_client_ca_file: ca.pem\n", nil, nil,
			`grpc_tls_client_ca_file: needs grpc_tls_cert_file and grpc_tls_key_file
grpc_tls_client_ca_file: ca.pem: no such file or directory`,
		},
		{
			"a name of clients that nobody vouches for", "grpc_tls_client_san: envoy.example\n", nil, nil,
			`grpc_tls_client_san: needs grpc_tls_client_ca_file`,
		},
		{
			"who may see the admin pages, without TLS", "admin_tls_client_ca_file: ca.pem\n", nil, nil,
			`admin_tls_client_ca_file: needs admin_tls_cert_file and admin_tls_key_file
admin_tls_client_ca_file: ca.pem: no such file or directory`,
		},
		{
			"two tokens", "admin_token: correct-horse-battery\nadmin_token_file: no.txt\n", nil, nil,
			`admin_token, admin_token_file: are two tokens; set one of them`,
		},
		{
			"no token file", "admin_token_file: no.txt\n", nil, []string{"--admin-address=[::]:6070"},
			`admin_token_file: no.txt: no such file or directory`,
		},
		{
			"a short token", "admin_token: hunter2\n", nil, nil,
			`admin_token: is no token; write at least 16 characters of printable ASCII without spaces, as openssl rand -hex 32 makes them`,
		},
		{
			"a token file with something else", "admin_token_file: config/ratelimitd.yaml\n", nil, nil,
			`admin_token: is no token; write at least 16 characters of printable ASCII without spaces, as openssl rand -hex 32 makes them`,
		},
		{
			"a control plane without TLS, with its files", "xds_tls_ca_file: ca.pem\nxds_tls_cert_file: c.pem\n", nil, nil,
			`xds_tls_ca_file, xds_tls_cert_file, xds_tls_key_file, xds_tls_server_name: mean nothing without xds_tls: true
xds_tls_ca_file: ca.pem: no such file or directory
xds_tls_cert_file: c.pem: no such file or directory`,
		},
		{
			"half a certificate for a control plane", "xds_tls: true\nxds_tls_key_file: config/ratelimitd.yaml\n", nil, nil,
			`xds_tls_cert_file, xds_tls_key_file: go together; set both or none`,
		},
		{
			"what a control plane cannot be told", "xds_node_metadata: zone\nxds_headers: \"a b=c\"\nxds_retry: 1ms\n", nil, nil,
			`config/ratelimitd.yaml:3: xds_retry: 1ms is too little, from 10ms to 1h
xds_node_metadata: part 1 is not name=value; write name=value,name=value
xds_headers: "a b" is no header; a name has letters, digits and -_. and does not begin with grpc-, and a value is printable ASCII`,
		},
		{
			"all at once", "stor: redis\nbody: maybe\n", []string{"RATELIMITD_STOER=redis"}, []string{"--stroe=redis", "--log-format=xml"},
			`config/ratelimitd.yaml:1: "stor" is not a setting; did you mean store?
RATELIMITD_STOER: is not a setting; did you mean RATELIMITD_STORE?
--stroe: is not a flag; did you mean --store?
config/ratelimitd.yaml:2: body: "maybe" is not true or false
--log-format: "xml" is not one of text, json`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := load(t, test.file, test.env, test.args...)
			var list *ErrorList
			if !errors.As(err, &list) || got != nil {
				t.Fatalf("got %+v, %v; want faults", got, err)
			}
			if err.Error() != test.want {
				t.Errorf("got\n%s\nwant\n%s", err, test.want)
			}
		})
	}
}

func TestAFileThatCannotBeRead(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll("config/ratelimitd.yaml", 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Load(Source{Flags: newFlags()})
	if want := "config/ratelimitd.yaml: is a directory"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestAdminAddressesThatAreFine need nothing else, or what is set.
func TestAdminAddressesThatAreFine(t *testing.T) {
	const token = "RATELIMITD_ADMIN_TOKEN=correct-horse-battery"
	for _, test := range []struct {
		address string
		env     []string
	}{
		{"127.0.0.1:6070", nil},
		{"127.8.8.8:0", nil},
		{"[::1]:6070", nil},
		{"localhost:6070", nil},
		{"off", nil},
		{":6070", []string{token}},
		{"admin.internal:6070", []string{token}},
	} {
		if _, err := load(t, "", test.env, "--admin-address="+test.address); err != nil {
			t.Errorf("%s: %v", test.address, err)
		}
	}
}
