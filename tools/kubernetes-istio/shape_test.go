package istio

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"istio.io/istio/pilot/pkg/config/kube/crd"
	"istio.io/istio/pilot/pkg/model"
	"istio.io/istio/pilot/test/xds"
	"istio.io/istio/pkg/config/schema/collections"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write integration/testdata/istio")

const root = "../.."

// shop is a service behind a gateway. In a cluster orders would be a Service, whose pod has the address 10.0.0.5.
const shop = `
apiVersion: networking.istio.io/v1
kind: Gateway
metadata: {name: edge, namespace: istio-system}
spec:
  selector: {istio: ingressgateway}
  servers:
    - {port: {number: 80, name: http, protocol: HTTP}, hosts: ["*"]}
---
apiVersion: networking.istio.io/v1
kind: VirtualService
metadata: {name: shop, namespace: shop}
spec:
  hosts: [shop.example.com]
  gateways: [istio-system/edge]
  http:
    - name: login
      match: [{uri: {exact: /login}}]
      route: [{destination: {host: orders.shop.svc.cluster.local, port: {number: 80}}}]
    - name: shop
      route: [{destination: {host: orders.shop.svc.cluster.local, port: {number: 80}}}]
---
apiVersion: networking.istio.io/v1
kind: ServiceEntry
metadata: {name: orders, namespace: shop}
spec:
  hosts: [orders.shop.svc.cluster.local]
  ports: [{number: 80, targetPort: 8080, name: http, protocol: HTTP}]
  resolution: STATIC
  location: MESH_INTERNAL
  endpoints: [{address: 10.0.0.5, labels: {app: orders}}]
`

// proxies are the two kinds that deploy/istio is about, with the listener of each that takes requests.
func proxies() map[string]*model.Proxy {
	gateway, orders := map[string]string{"istio": "ingressgateway"}, map[string]string{"app": "orders"}
	return map[string]*model.Proxy{
		"gateway": {
			Type: model.Router, ConfigNamespace: "istio-system", Labels: gateway,
			Metadata: &model.NodeMetadata{IstioVersion: "1.31.0", Namespace: "istio-system", Labels: gateway},
		},
		"sidecar": {
			Type: model.SidecarProxy, ConfigNamespace: "shop", Labels: orders, IPAddresses: []string{"10.0.0.5"},
			Metadata: &model.NodeMetadata{IstioVersion: "1.31.0", Namespace: "shop", Labels: orders},
		},
	}
}

var listenerOf = map[string]string{"gateway": "0.0.0.0_80", "sidecar": "virtualInbound"}

// What Istio makes of each proxy, without the EnvoyFilters and with them, is what integration/testdata/istio says.
func TestShape(t *testing.T) {
	base := shop + "---\n" + read(t, "deploy/istio/ratelimitd.yaml")
	for stage, config := range map[string]string{
		"before": base,
		"after":  base + "---\n" + read(t, "deploy/istio/gateway.yaml") + "---\n" + read(t, "deploy/istio/sidecar.yaml"),
	} {
		istiod := xds.NewFakeDiscoveryServer(t, xds.FakeOptions{KubernetesObjectString: services(t), ConfigString: config})
		for name, proxy := range proxies() {
			proxy = istiod.SetupProxy(proxy)
			shape := prune(object{
				"listeners": named(t, istiod.Listeners(proxy), listenerOf[name]),
				"routes":    named(t, istiod.Routes(proxy), "http.80"),
				"clusters": named(t, istiod.Clusters(proxy), "outbound|8081||ratelimitd.ratelimitd.svc.cluster.local",
					"outbound|8081||ratelimitd-headless.ratelimitd.svc.cluster.local", "outbound|80||orders.shop.svc.cluster.local", "inbound|8080||"),
			})
			compare(t, filepath.Join(root, "integration/testdata/istio", name+"."+stage+".yaml"), shape)
		}
	}
}

// Istio's webhook, which looks at what is applied, has nothing against the files of deploy/istio.
func TestValid(t *testing.T) {
	const general = "EnvoyFilter exposes internal implementation details" // which it says of every one
	for _, name := range []string{"ratelimitd.yaml", "gateway.yaml", "sidecar.yaml"} {
		configs, _, err := crd.ParseInputs(read(t, "deploy/istio/"+name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		for _, config := range configs {
			schema, found := collections.All.FindByGroupVersionAliasesKind(config.GroupVersionKind)
			if !found {
				t.Fatalf("%s: no schema for %v", name, config.GroupVersionKind)
			}
			warning, err := schema.ValidateConfig(config)
			if warning != nil && strings.HasPrefix(warning.Error(), general) && !strings.Contains(warning.Error(), "\n") {
				warning = nil
			}
			if warning != nil || err != nil {
				t.Errorf("%s: %s: warning %v, error %v", name, config.Name, warning, err)
			}
		}
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// services returns the Services of deploy/k8s, with what the API server would fill in.
func services(t *testing.T) string {
	t.Helper()
	tools, err := filepath.Glob(filepath.Join(root, ".tools/kustomize-*"))
	if err != nil || len(tools) != 1 {
		t.Fatalf("found %d kustomize in .tools; run `make tools` first", len(tools))
	}
	built, err := exec.Command(tools[0], "build", filepath.Join(root, "deploy/k8s")).Output()
	if err != nil {
		t.Fatal(err)
	}
	var some []string
	for document := range strings.SplitSeq(string(built), "\n---\n") {
		if !strings.Contains(document, "kind: Service\n") {
			continue
		}
		filled := "spec:\n  type: ClusterIP\n"
		if !strings.Contains(document, "clusterIP: None") {
			filled += "  clusterIP: 10.96.0.10\n"
		}
		some = append(some, strings.Replace(document, "spec:\n", filled, 1))
	}
	return strings.Join(some, "\n---\n")
}

type (
	object = map[string]any
	list   = []any
)

// named returns the messages of these names, in their order, as the objects of their YAML.
func named[T interface {
	proto.Message
	GetName() string
}](t *testing.T, all []T, names ...string) list {
	t.Helper()
	all = slices.DeleteFunc(all, func(message T) bool { return !slices.Contains(names, message.GetName()) })
	slices.SortStableFunc(all, func(a, b T) int { return slices.Index(names, a.GetName()) - slices.Index(names, b.GetName()) })
	some := list{}
	for _, message := range all {
		text, err := protojson.MarshalOptions{UseProtoNames: true}.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		var value any
		if err := json.Unmarshal(text, &value); err != nil {
			t.Fatal(err)
		}
		some = append(some, value)
	}
	return some
}

// prune takes away what these tests have no use for: filters that only Istio's own Envoy has, TLS and what else needs istiod,
// and tracing.
func prune(value any) any {
	switch value := value.(type) {
	case object:
		for _, key := range []string{"tracing", "request_id_extension", "transport_socket", "transport_socket_matches", "metadata", "listener_filters"} {
			delete(value, key)
		}
		for key := range value {
			value[key] = prune(value[key])
		}
	case list:
		kept := list{}
		for _, item := range value {
			named, isObject := item.(object)
			if !isObject || !strings.HasPrefix(text(named["name"]), "istio.") && !isTLS(named) && !isTCP(named) {
				kept = append(kept, prune(item))
			}
		}
		return kept
	}
	return value
}

func text(value any) string { s, _ := value.(string); return s }

// isTLS says whether an object is a chain of filters for TLS.
func isTLS(value object) bool {
	match, _ := value["filter_chain_match"].(object)
	return match["transport_protocol"] == "tls"
}

// isTCP says whether an object is a chain of filters without HTTP.
func isTCP(value object) bool {
	filters, isChain := value["filters"].(list)
	return isChain && value["filter_chain_match"] != nil && !slices.ContainsFunc(filters, func(f any) bool {
		return f.(object)["name"] == "envoy.filters.network.http_connection_manager"
	})
}

func compare(t *testing.T, path string, shape any) {
	t.Helper()
	got, err := yaml.Marshal(shape)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what Istio makes; run with -update and look at the difference", path)
	}
}
