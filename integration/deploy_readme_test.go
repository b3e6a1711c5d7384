package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// readDeployed returns a file of deploy.
func readDeployed(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "deploy", path))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// block returns the indented or fenced text of a page that begins with the given line, up to the end of its fence.
func block(t *testing.T, page, begin string) string {
	t.Helper()
	_, after, found := strings.Cut(page, begin)
	if !found {
		t.Fatalf("the page has no %q", begin)
	}
	text, _, _ := strings.Cut(after, "\n```")
	return text
}

// What the page of deploy/k8s shows is what happens: the question that its reader asks, and the check of its policies.
func TestExamplesOfKubernetesPage(t *testing.T) {
	page := readDeployed(t, "k8s/README.md")
	all := buildManifests(t)
	address := programtest.FreeAddress(t)
	startRedisPod(t, all, address)
	p, here := newServerPod(t, all, address)
	p.start(t, ratelimitdPath, here)
	p.waitReady(t)

	const curl = "$ curl -s localhost:8080/json -d '" + question + "'\n"
	if got, want := strings.TrimSpace(p.ask(t)), block(t, page, curl); got != want {
		t.Errorf("the page shows\n%s\nand it is\n%s", want, got)
	}

	check := exec.Command(ratelimitdPath, "check", "deploy/k8s/policies")
	check.Dir = ".."
	out, err := check.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "$ ratelimitd check deploy/k8s/policies\n" + string(out) + "$ "; !strings.Contains(page, want) {
		t.Errorf("the page does not show\n%s", want)
	}
	revision := regexp.MustCompile(`revision (\w+)`).FindStringSubmatch(string(out))[1]
	if got := p.metric(t, `ratelimitd_config_info{revision="`+revision+`"}`); got != 1 {
		t.Errorf("the pod does not have the revision that check printed: %v", got)
	}
}

// The kustomization that the page has its reader write works: it changes the image, the number, the policies and a setting.
func TestOverlayOfKubernetesPage(t *testing.T) {
	dir := t.TempDir()
	base, err := filepath.Abs(k8sDir)
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		t.Fatal(err)
	}
	if base, err = filepath.Rel(dir, base); err != nil {
		t.Fatal(err)
	}
	overlay := block(t, readDeployed(t, "k8s/README.md"), "# my-cluster/kustomization.yaml\n")
	writePolicy(t, filepath.Join(dir, "kustomization.yaml"), strings.Replace(overlay, "../deploy/k8s", base, 1))
	writePolicy(t, filepath.Join(dir, "edge.yaml"), "domain: edge\n")
	built := runTool(t, kustomizePath, "build", dir)
	all := parseManifests(t, built)

	d := all.deployment(t, "ratelimitd")
	if got, want := d.container().Image, "REGISTRY/ratelimitd:v1.2.3"; got != want || d.Replicas != 3 {
		t.Errorf("%d replicas of %s, want 3 of %s", d.Replicas, got, want)
	}
	if d.container().value(t, "RATELIMITD_BODY") != "true" || d.container().value(t, "RATELIMITD_STORE") != "redis" {
		t.Error("the settings are not those of before and one more")
	}
	if maps := all.of("ConfigMap"); len(maps) != 2 {
		t.Errorf("there are %d ConfigMaps, want 2", len(maps))
	}
	if got := all.find(t, "ConfigMap", "ratelimitd-policies"); len(got.Data) != 1 || got.Data["edge.yaml"] != "domain: edge\n" || got.Metadata.Namespace != "ratelimitd" {
		t.Errorf("the policies are %v", got)
	}
}

// So does the one for memcached, TLS and traces: its settings are there, pods may ask those whom it names, and no probe speaks
// plaintext to a port with TLS.
func TestFurtherOverlayOfKubernetesPage(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	base, err := filepath.Abs(k8sDir)
	if err != nil {
		t.Fatal(err)
	}
	if base, err = filepath.Rel(dir, base); err != nil {
		t.Fatal(err)
	}
	overlay := block(t, readDeployed(t, "k8s/README.md"), "# my-cluster/more/kustomization.yaml\n")
	writePolicy(t, filepath.Join(dir, "kustomization.yaml"), strings.Replace(overlay, "../deploy/k8s", base, 1))
	all := parseManifests(t, runTool(t, kustomizePath, "build", dir))

	c := all.deployment(t, "ratelimitd").container()
	known := map[string]bool{"GOMEMLIMIT": true, "OTEL_EXPORTER_OTLP_ENDPOINT": true}
	for _, setting := range settings.All() {
		known[setting.Env()] = true
	}
	for _, e := range c.Env {
		if !known[e.Name] {
			t.Errorf("there is no setting %s", e.Name)
		}
	}
	if c.value(t, "RATELIMITD_STORE") != "memcached" || c.value(t, "RATELIMITD_GRPC_TLS_CERT_FILE") == "" {
		t.Error("the store or the certificate is not the one of the page")
	}
	if c.LivenessProbe.GRPC != nil {
		t.Error("the liveness probe speaks plaintext to a port with TLS")
	}
	var policy struct {
		Egress []struct{ Ports []struct{ Port int } }
	}
	all.find(t, "NetworkPolicy", "ratelimitd").decode(t, &policy)
	open := map[int]bool{}
	for _, rule := range policy.Egress {
		for _, port := range rule.Ports {
			open[port.Port] = true
		}
	}
	if !open[11211] || !open[4318] || !open[53] {
		t.Errorf("pods may ask at %v alone", open)
	}
}

// The two lines that change in deploy/envoy/envoy.yaml for the headless Service lead to a cluster that Envoy takes, and to a
// Service that is there.
func TestHeadlessClusterOfKubernetesPage(t *testing.T) {
	const kind, name = "type: STRICT_DNS", "ratelimitd-headless.ratelimitd.svc.cluster.local"
	if lines := block(t, readDeployed(t, "k8s/README.md"), kind+"\n"); lines != "address: "+name {
		t.Fatalf("the page shows %q", lines)
	}
	var s service
	m := buildManifests(t).find(t, "Service", strings.Split(name, ".")[0])
	m.decode(t, &s)
	if s.ClusterIP != "None" || s.Ports[0].Port != 8081 || m.Metadata.Namespace != strings.Split(name, ".")[1] {
		t.Errorf("Service %s in %s: %+v", m.Metadata.Name, m.Metadata.Namespace, s)
	}
	before, cluster, found := strings.Cut(readDeployed(t, "envoy/envoy.yaml"), "- name: ratelimitd\n")
	if !found {
		t.Fatal("deploy/envoy/envoy.yaml has no cluster ratelimitd")
	}
	for old, by := range map[string]string{"type: STATIC\n": kind + "\n", "address: 127.0.0.1, port_value: 8081": "address: " + name + ", port_value: 8081"} {
		if strings.Count(cluster, old) != 1 {
			t.Fatalf("the cluster ratelimitd does not have %q once", old)
		}
		cluster = strings.Replace(cluster, old, by, 1)
	}
	validateEnvoy(t, before+"- name: ratelimitd\n"+cluster)
}

// validateEnvoy lets Envoy check a configuration.
func validateEnvoy(t *testing.T, config string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "envoy.yaml")
	writePolicy(t, file, config)
	if out, err := exec.Command(envoyPath, "--mode", "validate", "-c", file, "-l", "error").CombinedOutput(); err != nil {
		t.Fatalf("Envoy refuses the configuration: %v\n%s", err, out)
	}
}

// The commands of the pages name objects that are there.
func TestPagesNameWhatIsThere(t *testing.T) {
	all := buildManifests(t)
	kinds := map[string]string{"deployment": "Deployment", "service": "Service", "configmap": "ConfigMap"}
	for _, path := range []string{"k8s/README.md", "istio/README.md"} {
		page := readDeployed(t, path)
		named := regexp.MustCompile(`-n ratelimitd [^\n]*?\b(deployment|service|configmap)/([a-z0-9-]+)`).FindAllStringSubmatch(page, -1)
		for _, name := range named {
			all.find(t, kinds[name[1]], name[2])
		}
		if len(named) == 0 && path == "k8s/README.md" {
			t.Errorf("%s names nothing", path)
		}
		for _, link := range regexp.MustCompile(`\]\(([^)#]+)`).FindAllStringSubmatch(page, -1) {
			if _, err := os.Stat(filepath.Join("../deploy", filepath.Dir(path), link[1])); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	if page, want := readDeployed(t, "k8s/README.md"), "create secret generic "+redisSecret+" --from-literal=password="; !strings.Contains(page, want) {
		t.Errorf("the page does not %s", want)
	}
	for _, m := range all.of("Deployment") {
		for _, v := range all.deployment(t, m.Metadata.Name).container().Env {
			if ref := v.ValueFrom.SecretKeyRef; ref.Name != "" && (ref.Name != redisSecret || ref.Key != "password") {
				t.Errorf("%s needs %s of Secret %s, which nobody makes", m.Metadata.Name, ref.Key, ref.Name)
			}
		}
	}
}
