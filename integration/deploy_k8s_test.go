package integration

import (
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// What `kubectl apply -k deploy/k8s` sends fits the schemas of Kubernetes, and the tool that says so does refuse what does not.
func TestManifestsFitTheSchemas(t *testing.T) {
	built := runTool(t, kustomizePath, "build", k8sDir)
	file := filepath.Join(t.TempDir(), "built.yaml")
	if err := os.WriteFile(file, built, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, version := range []string{"1.27", "1.30"} { // the oldest that README.md names, and the newest that the tool knows
		runTool(t, kubectlValidatePath, "--version", version, file)
	}
	wantInvalid(t, string(built), map[string]string{
		"readOnlyRootFilesystem:": "readOnlyRootFileSystem:",
		"path: /healthcheck":      "paths: /healthcheck",
		"replicas: 2":             "replicas: two",
	})
}

// wantInvalid replaces one word at a time, after which kubectl-validate must complain.
func wantInvalid(t *testing.T, text string, faults map[string]string) {
	t.Helper()
	for right, wrong := range faults {
		if !strings.Contains(text, right) {
			t.Errorf("there is no %q", right)
			continue
		}
		file := filepath.Join(t.TempDir(), "invalid.yaml")
		if err := os.WriteFile(file, []byte(strings.Replace(text, right, wrong, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
		validate := exec.Command(kubectlValidatePath, "--version", "1.30", "--local-crds", istioCRDsDir, file)
		if out, err := validate.CombinedOutput(); err == nil {
			t.Errorf("%q passes:\n%s", wrong, out)
		}
	}
}

// The objects refer to one another by names, labels and ports.
func TestManifestsFitTogether(t *testing.T) {
	all := buildManifests(t)
	for _, m := range all {
		if m.Kind != "Namespace" && m.Metadata.Namespace != "ratelimitd" {
			t.Errorf("%s %s is in namespace %q", m.Kind, m.Metadata.Name, m.Metadata.Namespace)
		}
	}

	// selected returns the Deployment that labels select, one and only one.
	selected := func(by *manifest, labels map[string]string) *deployment {
		t.Helper()
		var found []*deployment
		for _, m := range all.of("Deployment") {
			if d := all.deployment(t, m.Metadata.Name); len(labels) > 0 && hasAll(d.Template.Metadata.Labels, labels) {
				found = append(found, d)
			}
		}
		if len(found) != 1 {
			t.Fatalf("%s %s selects %d Deployments by %v", by.Kind, by.Metadata.Name, len(found), labels)
		}
		return found[0]
	}
	for _, m := range all.of("Deployment") {
		selected(m, all.deployment(t, m.Metadata.Name).Selector.MatchLabels)
	}
	for _, m := range all.of("Service") {
		var s service
		m.decode(t, &s)
		d := selected(m, s.Selector)
		for _, port := range s.Ports {
			if got := d.container().port(port.TargetPort); got != port.Port {
				t.Errorf("Service %s: port %d leads to %q, which is %d", m.Metadata.Name, port.Port, port.TargetPort, got)
			}
		}
	}
	for _, m := range all.of("PodDisruptionBudget") {
		var budget struct{ Selector selector }
		m.decode(t, &budget)
		selected(m, budget.Selector.MatchLabels)
	}
	for _, m := range all.of("NetworkPolicy") {
		policy := networkPolicy{}
		m.decode(t, &policy)
		d := selected(m, policy.PodSelector.MatchLabels)
		open := map[int]bool{}
		for _, rule := range policy.Ingress {
			for _, port := range rule.Ports {
				open[port.Port] = true
			}
		}
		want := map[int]bool{}
		for _, port := range d.container().Ports {
			want[port.ContainerPort] = true
		}
		if !maps.Equal(open, want) {
			t.Errorf("NetworkPolicy %s lets in to %v, and the container listens on %v", m.Metadata.Name, open, want)
		}
		for _, rule := range policy.Egress {
			for _, to := range rule.To {
				if peer := selected(m, to.PodSelector.MatchLabels); peer.container().port(strconv.Itoa(rule.Ports[0].Port)) == 0 {
					t.Errorf("NetworkPolicy %s lets out to port %d, on which nobody listens", m.Metadata.Name, rule.Ports[0].Port)
				}
			}
		}
	}
	for _, m := range all.of("Deployment") {
		wantVolumes(t, all, m.Metadata.Name)
	}
}

type networkPolicy struct {
	PodSelector     selector `yaml:"podSelector"`
	Ingress, Egress []struct {
		To []struct {
			PodSelector selector `yaml:"podSelector"`
		}
		Ports []struct{ Port int }
	}
}

func hasAll(labels, some map[string]string) bool {
	for name, value := range some {
		if labels[name] != value {
			return false
		}
	}
	return true
}

// wantVolumes checks that what a Deployment mounts is there, but for the Secret, which the reader of README.md makes.
func wantVolumes(t *testing.T, all manifests, name string) {
	t.Helper()
	spec := all.deployment(t, name).Template.Spec
	mounted := map[string]mount{}
	for _, m := range spec.Containers[0].VolumeMounts {
		mounted[m.Name] = m
		if m.SubPath != "" {
			t.Errorf("%s mounts %s by subPath, and will never see a change", name, m.Name)
		}
	}
	for _, v := range spec.Volumes {
		if _, ok := mounted[v.Name]; !ok {
			t.Errorf("%s does not mount %s", name, v.Name)
		}
		delete(mounted, v.Name)
		switch {
		case v.ConfigMap != nil:
			all.find(t, "ConfigMap", v.ConfigMap.Name)
		case v.Secret != nil && v.Secret.SecretName != redisSecret:
			t.Errorf("%s mounts the Secret %s, which nobody makes", name, v.Secret.SecretName)
		}
	}
	for missing := range mounted {
		t.Errorf("%s mounts %s, which is no volume", name, missing)
	}
}

// redisSecret is the Secret that deploy/k8s/README.md has its reader make.
const redisSecret = "ratelimitd-redis"

// Each pod has no more rights than it needs.
func TestPodsHaveFewRights(t *testing.T) {
	all := buildManifests(t)
	for _, m := range all.of("Deployment") {
		spec := all.deployment(t, m.Metadata.Name).Template.Spec
		pod, c := spec.SecurityContext, spec.Containers[0].SecurityContext
		for what, holds := range map[string]bool{
			"no token":             spec.AutomountServiceAccountToken != nil && !*spec.AutomountServiceAccountToken,
			"no service links":     spec.EnableServiceLinks != nil && !*spec.EnableServiceLinks,
			"not root":             pod.RunAsNonRoot && pod.RunAsUser > 0 && pod.RunAsGroup > 0,
			"seccomp":              pod.SeccompProfile.Type == "RuntimeDefault",
			"no escalation":        c.AllowPrivilegeEscalation != nil && !*c.AllowPrivilegeEscalation,
			"a root only to read":  c.ReadOnlyRootFilesystem,
			"no capabilities":      len(c.Capabilities.Drop) == 1 && c.Capabilities.Drop[0] == "ALL" && len(c.Capabilities.Add) == 0,
			"a bound of memory":    spec.Containers[0].Resources.Limits["memory"] != "",
			"no bound of CPU":      spec.Containers[0].Resources.Limits["cpu"] == "",
			"a share of CPU":       spec.Containers[0].Resources.Requests["cpu"] != "",
			"a share of memory":    spec.Containers[0].Resources.Requests["memory"] != "",
			"a probe of readiness": spec.Containers[0].ReadinessProbe != nil,
			"a probe of liveness":  spec.Containers[0].LivenessProbe != nil,
		} {
			if !holds {
				t.Errorf("%s does not have: %s", m.Metadata.Name, what)
			}
		}
	}
}

// The ports are those on which ratelimitd listens when it is not told otherwise, and the times of stopping fit.
func TestManifestsFitTheDefaults(t *testing.T) {
	d := buildManifests(t).deployment(t, "ratelimitd")
	c, defaults := d.container(), settings.Default()
	for name, address := range map[string]settings.Address{"grpc": defaults.GRPCAddress, "http": defaults.HTTPAddress} {
		if got := ":" + strconv.Itoa(c.port(name)); got != string(address) {
			t.Errorf("port %s is %s, and ratelimitd listens on %s", name, got, address)
		}
	}
	if got := d.Template.Metadata.Annotations["prometheus.io/port"]; ":"+got != string(defaults.HTTPAddress) {
		t.Errorf("Prometheus asks port %s, and metrics are on %s", got, defaults.HTTPAddress)
	}
	drain, shutdown := duration(t, c.value(t, "RATELIMITD_DRAIN_DELAY")), duration(t, c.value(t, "RATELIMITD_SHUTDOWN_TIMEOUT"))
	grace := time.Duration(d.Template.Spec.TerminationGracePeriodSeconds) * time.Second
	if stop := drain + shutdown; stop+2*time.Second > grace {
		t.Errorf("stopping takes up to %v, and Kubernetes waits %v", stop, grace)
	}
	// While it drains, the liveness probe, if it still came, would fail; it must not end the pod before the time.
	if alive := time.Duration(c.LivenessProbe.PeriodSeconds*c.LivenessProbe.FailureThreshold) * time.Second; alive < drain+shutdown {
		t.Errorf("the liveness probe gives up after %v, in the middle of stopping, which takes %v", alive, drain+shutdown)
	}
}

func duration(t *testing.T, text string) time.Duration {
	t.Helper()
	d, err := time.ParseDuration(text)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
