package integration

import (
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// The files of deploy/istio fit the schemas of Istio.
func TestIstioFilesFitTheSchemas(t *testing.T) {
	files := []string{"ratelimitd.yaml", "gateway.yaml", "sidecar.yaml"}
	args := []string{"--version", "1.30", "--local-crds", istioCRDsDir}
	for _, name := range files {
		args = append(args, filepath.Join(istioDir, name))
	}
	// The page has one more, for its readers' users.
	users := filepath.Join(t.TempDir(), "users.yaml")
	const begin = "apiVersion: security.istio.io/v1\n"
	writePolicy(t, users, begin+block(t, readDeployed(t, "istio/README.md"), begin))
	args = append(args, users)
	runTool(t, kubectlValidatePath, args...)
	wantInvalid(t, readDeployed(t, "istio/gateway.yaml"), map[string]string{"subFilter:": "subfilter:", "operation: MERGE": "operation: JOIN"})
	wantInvalid(t, readDeployed(t, "istio/ratelimitd.yaml"), map[string]string{"outlierDetection:": "outlierDetections:"})
}

// The proxies call port grpc of the Service ratelimitd, by the name that Istio gives to it, and the DestinationRule is for it.
func TestIstioFilesNameTheService(t *testing.T) {
	m := buildManifests(t).find(t, "Service", "ratelimitd")
	var s service
	m.decode(t, &s)
	host := m.Metadata.Name + "." + m.Metadata.Namespace + ".svc.cluster.local"
	if s.ClusterIP == "None" {
		t.Error("the Service is headless, which Istio's sidecars cannot use here")
	}
	if s.Ports[0].Name != "grpc" {
		t.Errorf("port %d is called %q, by which Istio does not know that it is HTTP/2", s.Ports[0].Port, s.Ports[0].Name)
	}
	cluster := fmt.Sprintf("cluster_name: outbound|%d||%s\n", s.Ports[0].Port, host)
	for path, want := range map[string]string{"istio/gateway.yaml": cluster, "istio/sidecar.yaml": cluster, "istio/ratelimitd.yaml": "host: " + host + "\n"} {
		if !strings.Contains(readDeployed(t, path), want) {
			t.Errorf("%s does not have %q", path, want)
		}
	}
}

// shape is a part of the configuration that Istio gives to a proxy. tools/kubernetes-istio writes the files, by istiod's own
// code: .before.yaml without the EnvoyFilters, .after.yaml with them.
type shape struct {
	Listeners, Routes, Clusters list
}

// readShape reads a file of testdata/istio, and puts the routes that a proxy asks for by name in their place.
func readShape(t *testing.T, name string) *shape {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata/istio", name))
	if err != nil {
		t.Fatal(err)
	}
	s := &shape{}
	if err := yaml.Unmarshal(text, s); err != nil {
		t.Fatal(err)
	}
	for _, manager := range managers(s.Listeners) {
		asked, _ := manager["rds"].(object)
		for _, routes := range s.Routes {
			if asked != nil && asked["route_config_name"] == routes.(object)["name"] {
				manager["route_config"] = routes
				delete(manager, "rds")
			}
		}
	}
	return s
}

// proxyOf are the proxies of deploy/istio: the file that changes each, and the name that Istio has for its kind.
var proxyOf = map[string]struct{ file, context string }{
	"gateway": {"gateway.yaml", "GATEWAY"},
	"sidecar": {"sidecar.yaml", "SIDECAR_INBOUND"},
}

// patched returns the configuration of a proxy with the EnvoyFilters of deploy/istio.
func patched(t *testing.T, name string) *shape {
	t.Helper()
	s := readShape(t, name+".before.yaml")
	for _, filter := range readEnvoyFilters(t, proxyOf[name].file) {
		for i := range filter.Spec.ConfigPatches {
			if err := filter.Spec.ConfigPatches[i].apply(proxyOf[name].context, s.Listeners); err != nil {
				t.Errorf("%s: %s: %v", proxyOf[name].file, filter.Metadata.Name, err)
			}
		}
	}
	return s
}

// The EnvoyFilters do here what they do in Istio.
func TestEnvoyFiltersDoWhatIstioSays(t *testing.T) {
	for name := range proxyOf {
		got, want := normal(patched(t, name).Listeners), normal(readShape(t, name+".after.yaml").Listeners)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: if you changed deploy/istio or deploy/k8s, run `make istio` and look at what Istio makes of it.\nhere:\n%s\nin Istio:\n%s",
				name, toYAML(t, got), toYAML(t, want))
		}
	}
}

// normal returns a configuration in the one way in which Istio writes it: durations with three digits, and nothing that is
// false, which is no different from absent.
func normal(value any) any {
	switch value := value.(type) {
	case object:
		for key, item := range value {
			if item == false {
				delete(value, key)
			} else {
				value[key] = normal(item)
			}
		}
	case list:
		for i, item := range value {
			value[i] = normal(item)
		}
	case string:
		if regexp.MustCompile(`^\d+\.\d+s$`).MatchString(value) {
			seconds, _ := strconv.ParseFloat(strings.TrimSuffix(value, "s"), 64) // it is one
			return fmt.Sprintf("%.3fs", seconds)
		}
	}
	return value
}

func toYAML(t *testing.T, value any) string {
	t.Helper()
	text, err := yaml.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// setting is one value of a configuration.
type setting struct {
	in  object
	key string
}

func (s setting) set(value string) { s.in[s.key] = value }

// deadlines returns how long the filter waits for ratelimitd, and how long for each try: Envoy takes the longest pause between
// tries for that as well.
func deadlines(t *testing.T, manager object) (timeout, try setting) {
	t.Helper()
	for _, filter := range manager["http_filters"].(list) {
		if filter := filter.(object); filter["name"] == "envoy.filters.http.ratelimit" {
			config := filter["typed_config"].(object)
			policy := config["rate_limit_service"].(object)["grpc_service"].(object)["retry_policy"].(object)
			return setting{config, "timeout"}, setting{policy["retry_back_off"].(object), "max_interval"}
		}
	}
	t.Fatal("there is no filter that asks ratelimitd")
	return setting{}, setting{}
}

// A try is not given up before the time.
func TestTriesLastAsLongAsCalls(t *testing.T) {
	for name := range proxyOf {
		timeout, try := deadlines(t, managers(patched(t, name).Listeners)[0])
		call, once := duration(t, timeout.in[timeout.key].(string)), duration(t, try.in[try.key].(string))
		if call != 100*time.Millisecond || once < call {
			t.Errorf("%s: a call may take %v, and a try %v", name, call, once)
		}
	}
}

// startProxy starts an Envoy with the configuration that Istio and the EnvoyFilters make for a proxy. What is otherwise here
// is changed: addresses, clusters that a control plane would fill, and the filter's deadline, since this machine may be busy.
func startProxy(t *testing.T, name, ratelimitd string) *envoy {
	t.Helper()
	s := patched(t, name)
	e := &envoy{address: programtest.FreeAddress(t), admin: programtest.FreeAddress(t)}
	backend := programtest.FreeAddress(t)

	listener := s.Listeners[0].(object)
	chains := listener["filter_chains"].(list)
	chain := chains[len(chains)-1].(object) // in a sidecar the last one is for the port of the service
	delete(chain, "filter_chain_match")
	listener = object{"name": "here", "address": socketAddress(t, e.address), "filter_chains": list{chain}}
	manager := managers(list{listener})[0]
	timeout, try := deadlines(t, manager)
	timeout.set("10s")
	try.set("10s")
	for _, host := range manager["route_config"].(object)["virtual_hosts"].(list) {
		host.(object)["domains"] = list{"*"}
	}

	clusters := list{}
	for _, cluster := range s.Clusters {
		cluster := cluster.(object)
		to := backend
		if strings.Contains(cluster["name"].(string), "ratelimitd.ratelimitd") {
			to = ratelimitd
		}
		for _, key := range []string{"eds_cluster_config", "upstream_bind_config", "cleanup_interval", "filters"} {
			delete(cluster, key)
		}
		cluster["type"], cluster["lb_policy"] = "STATIC", "LEAST_REQUEST"
		endpoint := object{"endpoint": object{"address": socketAddress(t, to)}}
		cluster["load_assignment"] = object{"cluster_name": cluster["name"], "endpoints": list{object{"lb_endpoints": list{endpoint}}}}
		clusters = append(clusters, cluster)
	}

	text := toYAML(t, object{
		"node":             object{"id": name, "cluster": name},
		"admin":            object{"address": socketAddress(t, e.admin)},
		"static_resources": object{"listeners": list{listener, backendListener(t, backend)}, "clusters": clusters},
	})
	validateEnvoy(t, text)
	e.launch(t, text, 2)
	t.Cleanup(func() { // before Envoy ends
		if t.Failed() && e.Running() {
			why := e.stats(t, `^cluster\.outbound\|8081\|\|ratelimitd\.`)
			maps.DeleteFunc(why, func(_ string, n int) bool { return n == 0 })
			t.Logf("what Envoy counted of its calls to ratelimitd: %v", why)
		}
	})
	return e
}

func socketAddress(t *testing.T, address string) object {
	t.Helper()
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	return object{"socket_address": object{"address": host, "port_value": number}}
}

// backendListener stands for the service: it answers everything by itself.
func backendListener(t *testing.T, address string) object {
	t.Helper()
	var filters list
	parse(t, `
- name: envoy.filters.network.http_connection_manager
  typed_config:
    "@type": type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager
    stat_prefix: backend
    http_filters:
      - name: envoy.filters.http.router
        typed_config: {"@type": type.googleapis.com/envoy.extensions.filters.http.router.v3.Router}
    route_config:
      virtual_hosts:
        - name: all
          domains: ["*"]
          routes: [{match: {prefix: /}, direct_response: {status: 200, body: {inline_string: hello}}}]
`, &filters)
	return object{"name": "backend", "address": socketAddress(t, address), "filter_chains": list{object{"filters": filters}}}
}

// serveDeployed starts ratelimitd with the policies of deploy/k8s.
func serveDeployed(t *testing.T) *ratelimitd {
	t.Helper()
	return serve(t, filepath.Join(k8sDir, "policies"))
}

// A gateway with the EnvoyFilters of deploy/istio, and the policies of deploy/k8s: each host and each route meets its limits,
// requests get through and then do not.
func TestIstioGateway(t *testing.T) {
	server := serveDeployed(t)
	gateway := startProxy(t, "gateway", server.grpc)
	client := gateway.client(t, "")

	const byAddress, byUser, byLogin = "600;w=60", "300;w=60", "5;w=60"
	for _, test := range []struct {
		path    string
		headers []string
		want    string // the limits that were met, the tightest first
	}{
		{"/", nil, "600, " + byAddress},
		{"/products?page=2", []string{"x-user-id: alice"}, byAddress + ", " + byUser},
		{"/login?next=/", []string{"x-user-id: alice"}, "5, " + byLogin + ", " + byAddress + ", " + byUser},
	} {
		got := client.mustGet(t, test.path, test.headers...)
		if limits := got.header.Get("X-Ratelimit-Limit"); got.status != http.StatusOK || !strings.Contains(limits, test.want) {
			t.Errorf("%s: status %d, limits %q, want %q", test.path, got.status, limits, test.want)
		}
	}

	// Of five attempts to sign in one has been made.
	ask{4, "/login", "", nil, http.StatusOK}.run(t, gateway)
	ask{1, "/login?again=1", "", nil, http.StatusTooManyRequests}.run(t, gateway)
	ask{1, "/login", "", []string{"x-forwarded-for: 192.0.2.1"}, http.StatusTooManyRequests}.run(t, gateway)
	ask{1, "/login", "127.0.0.2", nil, http.StatusOK}.run(t, gateway)
	refused := client.mustGet(t, "/login")
	if limits := refused.header.Get("X-Ratelimit-Limit"); !strings.Contains(readDeployed(t, "istio/README.md"), "`"+limits+"`") {
		t.Errorf("the page does not show x-ratelimit-limit: %s", limits)
	}
	if wait, err := strconv.Atoi(refused.header.Get("Retry-After")); err != nil || wait < 1 || wait > 60 {
		t.Errorf("Retry-After is %q", refused.header.Get("Retry-After"))
	}
	gateway.wantOutcomes(t, "outbound|80||orders.shop.svc.cluster.local", map[string]bool{"ok": true, "over_limit": true})

	// Without ratelimitd requests get through: failure_mode_deny is false.
	server.Kill()
	ask{1, "/login", "", nil, http.StatusOK}.run(t, gateway)
	gateway.wantOutcomes(t, "outbound|80||orders.shop.svc.cluster.local", map[string]bool{"ok": true, "over_limit": true, "error": true, "failure_mode_allowed": true})
}

// A sidecar with the EnvoyFilters of deploy/istio, and the policies of deploy/k8s.
func TestIstioSidecar(t *testing.T) {
	sidecar := startProxy(t, "sidecar", serveDeployed(t).grpc)
	client := sidecar.client(t, "")

	for _, test := range []struct{ header, want string }{{"x-nobody: 1", `"service";q=100;w=1`}, {"x-user-id: alice", `"service/user";q=60;w=60`}} {
		got := client.mustGet(t, "/", test.header)
		if limit := got.header.Get("Ratelimit-Policy"); got.status != http.StatusOK || limit != test.want {
			t.Errorf("%s: status %d, limit %s, want %s", test.header, got.status, limit, test.want)
		}
	}
	// A user has 20 at once, and gets one a second.
	passed, refused := 1, answer{}
	for ; passed < 100; passed++ {
		if refused = client.mustGet(t, "/", "x-user-id: alice"); refused.status != http.StatusOK {
			break
		}
	}
	if refused.status != http.StatusTooManyRequests || passed < 20 {
		t.Errorf("request %d got status %d", passed+1, refused.status)
	}
	if got := client.mustGet(t, "/", "x-user-id: bob"); got.status != http.StatusOK {
		t.Errorf("another user got status %d", got.status)
	}

	// A client that speaks gRPC gets RESOURCE_EXHAUSTED.
	const resourceExhausted = "8"
	waitFor(t, 5*time.Second, "a gRPC client to be refused", func() bool {
		got := client.mustGet(t, "/", "x-user-id: alice", "content-type: application/grpc")
		return got.status == http.StatusOK && got.header.Get("Grpc-Status") == resourceExhausted
	})
	sidecar.wantOutcomes(t, "inbound|8080||", map[string]bool{"ok": true, "over_limit": true})
}

// wantOutcomes checks which outcomes the filter counted, on the cluster that the requests went to.
func (e *envoy) wantOutcomes(t *testing.T, cluster string, want map[string]bool) {
	t.Helper()
	got := map[string]bool{}
	for name, n := range e.stats(t, `\.ratelimit\.`) {
		if outcome, found := strings.CutPrefix(name, "cluster."+cluster+";.ratelimit."); found && n > 0 {
			got[outcome] = true
		}
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("Envoy counted %v, want %v: %v", got, want, e.stats(t, `\.ratelimit\.`))
	}
}
