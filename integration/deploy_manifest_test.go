package integration

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// Relative to this folder. Both tools are built by make; their versions stand in tools/kubernetes.mk.
const (
	kustomizePath       = "../.tools/kustomize-v5.8.2"
	kubectlValidatePath = "../.tools/kubectl-validate-v0.0.4"
	istioCRDsDir        = "../.tools/istio-crds-v1.32.0"
	k8sDir              = "../deploy/k8s"
	istioDir            = "../deploy/istio"
)

// manifest is one object of Kubernetes. Spec is decoded by whom it concerns.
type manifest struct {
	Kind     string
	Metadata metadata
	Data     map[string]string
	Spec     yaml.Node
}

type metadata struct {
	Name, Namespace     string
	Labels, Annotations map[string]string
}

// decode decodes the spec.
func (m *manifest) decode(t *testing.T, into any) {
	t.Helper()
	if err := m.Spec.Decode(into); err != nil {
		t.Fatalf("%s %s: %v", m.Kind, m.Metadata.Name, err)
	}
}

// manifests are those of deploy/k8s as `kubectl apply -k` sends them.
type manifests []*manifest

// buildManifests runs kustomize.
func buildManifests(t *testing.T) manifests {
	t.Helper()
	return parseManifests(t, runTool(t, kustomizePath, "build", k8sDir))
}

// runTool runs a tool that make built, and returns what it prints.
func runTool(t *testing.T, path string, args ...string) []byte {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		t.Fatalf("run `make tools` first: %v", err)
	}
	var stderr bytes.Buffer
	cmd := exec.Command(path, args...)
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", path, strings.Join(args, " "), err, out, &stderr)
	}
	return out
}

func parseManifests(t *testing.T, text []byte) manifests {
	t.Helper()
	var all manifests
	for documents := yaml.NewDecoder(bytes.NewReader(text)); ; {
		m := &manifest{}
		err := documents.Decode(m)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
}

// of returns the objects of a kind.
func (all manifests) of(kind string) manifests {
	var some manifests
	for _, m := range all {
		if m.Kind == kind {
			some = append(some, m)
		}
	}
	return some
}

// find returns an object that must be there.
func (all manifests) find(t *testing.T, kind, name string) *manifest {
	t.Helper()
	for _, m := range all.of(kind) {
		if m.Metadata.Name == name {
			return m
		}
	}
	t.Fatalf("there is no %s %s", kind, name)
	return nil
}

// The parts of a Deployment that these tests look at.
type (
	deployment struct {
		Replicas int
		Selector selector
		Template struct {
			Metadata metadata
			Spec     podSpec
		}
	}
	selector struct {
		MatchLabels map[string]string `yaml:"matchLabels"`
	}
	podSpec struct {
		ServiceAccountName            string          `yaml:"serviceAccountName"`
		AutomountServiceAccountToken  *bool           `yaml:"automountServiceAccountToken"`
		EnableServiceLinks            *bool           `yaml:"enableServiceLinks"`
		TerminationGracePeriodSeconds int             `yaml:"terminationGracePeriodSeconds"`
		SecurityContext               securityContext `yaml:"securityContext"`
		Containers                    []container
		Volumes                       []volume
	}
	securityContext struct {
		RunAsNonRoot             bool                  `yaml:"runAsNonRoot"`
		RunAsUser                int                   `yaml:"runAsUser"`
		RunAsGroup               int                   `yaml:"runAsGroup"`
		AllowPrivilegeEscalation *bool                 `yaml:"allowPrivilegeEscalation"`
		ReadOnlyRootFilesystem   bool                  `yaml:"readOnlyRootFilesystem"`
		SeccompProfile           struct{ Type string } `yaml:"seccompProfile"`
		Capabilities             struct{ Add, Drop []string }
	}
	container struct {
		Name, Image     string
		Command, Args   []string
		Env             []variable
		Ports           []containerPort
		Resources       struct{ Requests, Limits map[string]string }
		StartupProbe    *probe          `yaml:"startupProbe"`
		ReadinessProbe  *probe          `yaml:"readinessProbe"`
		LivenessProbe   *probe          `yaml:"livenessProbe"`
		SecurityContext securityContext `yaml:"securityContext"`
		VolumeMounts    []mount         `yaml:"volumeMounts"`
	}
	variable struct {
		Name, Value string
		ValueFrom   struct {
			ResourceFieldRef struct{ Resource string }  `yaml:"resourceFieldRef"`
			SecretKeyRef     struct{ Name, Key string } `yaml:"secretKeyRef"`
		} `yaml:"valueFrom"`
	}
	containerPort struct {
		Name          string
		ContainerPort int `yaml:"containerPort"`
	}
	probe struct {
		HTTPGet *struct{ Path, Port string } `yaml:"httpGet"`
		GRPC    *struct {
			Port    int
			Service string
		}
		TCPSocket        *struct{ Port string } `yaml:"tcpSocket"`
		PeriodSeconds    int                    `yaml:"periodSeconds"`
		TimeoutSeconds   int                    `yaml:"timeoutSeconds"`
		FailureThreshold int                    `yaml:"failureThreshold"`
	}
	mount struct {
		Name      string
		MountPath string `yaml:"mountPath"`
		SubPath   string `yaml:"subPath"`
		ReadOnly  bool   `yaml:"readOnly"`
	}
	volume struct {
		Name      string
		ConfigMap *struct{ Name string } `yaml:"configMap"`
		Secret    *struct {
			SecretName string `yaml:"secretName"`
		}
		EmptyDir *struct{} `yaml:"emptyDir"`
	}
)

// deployment returns a Deployment that must be there.
func (all manifests) deployment(t *testing.T, name string) *deployment {
	t.Helper()
	d := &deployment{}
	all.find(t, "Deployment", name).decode(t, d)
	if len(d.Template.Spec.Containers) != 1 {
		t.Fatalf("Deployment %s has %d containers, want 1", name, len(d.Template.Spec.Containers))
	}
	return d
}

// container returns the one container.
func (d *deployment) container() *container { return &d.Template.Spec.Containers[0] }

// port returns the port of a container by its name or number; 0 for one that it does not have.
func (c *container) port(nameOrNumber string) int {
	for _, p := range c.Ports {
		if p.Name == nameOrNumber || strconv.Itoa(p.ContainerPort) == nameOrNumber {
			return p.ContainerPort
		}
	}
	return 0
}

// value returns the value that a variable is set to, which must be one.
func (c *container) value(t *testing.T, name string) string {
	t.Helper()
	for _, v := range c.Env {
		if v.Name == name && v.Value != "" {
			return v.Value
		}
	}
	t.Fatalf("container %s does not set %s", c.Name, name)
	return ""
}

// service is the part of a Service that these tests look at.
type service struct {
	ClusterIP string `yaml:"clusterIP"`
	Selector  map[string]string
	Ports     []struct {
		Name       string
		Port       int
		TargetPort string `yaml:"targetPort"`
	}
}
