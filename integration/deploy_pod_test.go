package integration

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// pod runs the container of a Deployment as a process of this machine, in the way in which the kubelet would: with its
// arguments and environment, its volumes laid as links to directories, and its probes.
type pod struct {
	*programtest.Process
	c         *container
	volumes   map[string]string // mount path → directory here
	addresses map[int]string    // container port → address here
	secret    map[string]string // of which variables and files are
}

// newPod lays the volumes and chooses addresses.
func newPod(t *testing.T, all manifests, name string, secret map[string]string) *pod {
	t.Helper()
	d := all.deployment(t, name)
	p := &pod{c: d.container(), volumes: map[string]string{}, addresses: map[int]string{}, secret: secret}
	for _, port := range p.c.Ports {
		p.addresses[port.ContainerPort] = programtest.FreeAddress(t)
	}
	files := map[string]map[string]string{} // volume → its files
	for _, v := range d.Template.Spec.Volumes {
		switch {
		case v.ConfigMap != nil:
			files[v.Name] = all.find(t, "ConfigMap", v.ConfigMap.Name).Data
		case v.Secret != nil:
			files[v.Name] = p.secret
		}
	}
	for _, m := range p.c.VolumeMounts {
		p.volumes[m.MountPath] = t.TempDir()
		layVolume(t, p.volumes[m.MountPath], files[m.Name])
	}
	return p
}

// layVolume makes a directory hold these files as the kubelet does, also in place of older ones: name -> ..data/name, where
// ..data is a link to a new directory each time.
func layVolume(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	data, next := filepath.Join(dir, "..data"), filepath.Join(dir, "..data_tmp")
	old, _ := os.Readlink(data) // none the first time
	version := "..version-" + rand.Text()
	must(os.Mkdir(filepath.Join(dir, version), 0o700))
	for name, text := range files {
		must(os.WriteFile(filepath.Join(dir, version, name), []byte(text), 0o600))
	}
	must(os.Symlink(version, next))
	must(os.Rename(next, data))
	for name := range files {
		if _, err := os.Lstat(filepath.Join(dir, name)); err != nil {
			must(os.Symlink(filepath.Join("..data", name), filepath.Join(dir, name)))
		}
	}
	if old != "" {
		must(os.RemoveAll(filepath.Join(dir, old)))
	}
}

// here replaces the paths of volumes in a text by those of this machine.
func (p *pod) here(text string) string {
	for path, dir := range p.volumes {
		if text == path || strings.HasPrefix(text, path+"/") {
			return dir + strings.TrimPrefix(text, path)
		}
	}
	return text
}

// env returns the environment of the container.
func (p *pod) env(t *testing.T) []string {
	t.Helper()
	var env []string
	for _, v := range p.c.Env {
		value := p.here(v.Value)
		switch {
		case v.ValueFrom.SecretKeyRef.Name != "":
			value = p.secret[v.ValueFrom.SecretKeyRef.Key]
		case v.ValueFrom.ResourceFieldRef.Resource == "requests.memory":
			value = strconv.FormatInt(p.quantity(t, p.c.Resources.Requests["memory"]), 10)
		}
		if value == "" {
			t.Fatalf("variable %s has no value that this test knows of", v.Name)
		}
		env = append(env, v.Name+"="+value)
	}
	return env
}

// quantity returns the bytes of a quantity such as 256Mi.
func (p *pod) quantity(t *testing.T, text string) int64 {
	t.Helper()
	n, err := strconv.ParseInt(strings.TrimSuffix(text, "Mi"), 10, 64)
	if err != nil || !strings.HasSuffix(text, "Mi") {
		t.Fatalf("a quantity that this test does not know: %q", text)
	}
	return n << 20
}

// start runs the container. The path is that of what is in its image; more variables and arguments stand for what is
// otherwise here than in a pod, such as addresses.
func (p *pod) start(t *testing.T, path string, env []string, args ...string) {
	t.Helper()
	own := p.c.Args
	if len(p.c.Command) > 0 {
		own = append(p.c.Command[1:len(p.c.Command):len(p.c.Command)], own...)
	}
	var expanded []string
	all := p.env(t)
	for _, arg := range own {
		for _, variable := range all {
			name, value, _ := strings.Cut(variable, "=")
			arg = strings.ReplaceAll(arg, "$("+name+")", value)
		}
		expanded = append(expanded, p.here(arg))
	}
	p.Process = startProcess(t, append(all, env...), path, append(expanded, args...)...)
}

// passes probes as the kubelet does, once.
func (p *pod) passes(t *testing.T, by *probe) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), cmp.Or(time.Duration(by.TimeoutSeconds)*time.Second, 5*time.Second))
	defer cancel()
	switch {
	case by.HTTPGet != nil:
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+p.at(t, by.HTTPGet.Port)+by.HTTPGet.Path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("User-Agent", "kube-probe/1.30")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode >= 200 && resp.StatusCode < 400
	case by.GRPC != nil:
		conn, err := grpc.NewClient(p.at(t, strconv.Itoa(by.GRPC.Port)), grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		got, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: by.GRPC.Service})
		return err == nil && got.Status == healthpb.HealthCheckResponse_SERVING
	case by.TCPSocket != nil:
		conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.at(t, by.TCPSocket.Port))
		if err != nil {
			return false
		}
		conn.Close()
		return true
	}
	t.Fatal("a probe that this test does not know")
	return false
}

// at returns the address of a port.
func (p *pod) at(t *testing.T, nameOrNumber string) string {
	t.Helper()
	address := p.addresses[p.c.port(nameOrNumber)]
	if address == "" {
		t.Fatalf("%s has no port %s", p.c.Name, nameOrNumber)
	}
	return address
}

// waitReady waits until the readiness probe passes.
func (p *pod) waitReady(t *testing.T) {
	t.Helper()
	waitFor(t, 20*time.Second, p.c.Name+" to be ready", func() bool {
		if !p.Running() {
			t.Fatalf("%s ended", p.c.Name)
		}
		return p.passes(t, p.c.ReadinessProbe)
	})
}

// readersSecret is the Secret that the reader of deploy/k8s/README.md makes.
func readersSecret() map[string]string { return map[string]string{"password": "p@ss word/1"} }

// startRedisPod starts the Redis of deploy/k8s.
func startRedisPod(t *testing.T, all manifests, address string) *pod {
	t.Helper()
	p := newPod(t, all, "ratelimitd-redis", readersSecret())
	p.addresses[6379] = address
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		t.Fatal(err)
	}
	p.start(t, p.c.Command[0], nil, "--bind", host, "--port", port, "--dir", t.TempDir())
	p.waitReady(t)
	return p
}

// newServerPod returns the ratelimitd of deploy/k8s, which is not started, and what is otherwise here than in its pod. Redis is
// found by the name of its Service there, and by its address here.
func newServerPod(t *testing.T, all manifests, redis string) (*pod, []string) {
	t.Helper()
	p := newPod(t, all, "ratelimitd", readersSecret())
	url := p.c.value(t, "RATELIMITD_REDIS_URL")
	var known service
	all.find(t, "Service", "ratelimitd-redis").decode(t, &known)
	if want := fmt.Sprintf("redis://ratelimitd-redis:%d", known.Ports[0].Port); url != want {
		t.Fatalf("Redis is expected at %s, and its Service is %s", url, want)
	}
	return p, []string{
		"RATELIMITD_REDIS_URL=redis://" + redis,
		"RATELIMITD_GRPC_ADDRESS=" + p.at(t, "grpc"),
		"RATELIMITD_HTTP_ADDRESS=" + p.at(t, "http"),
		"RATELIMITD_ADMIN_ADDRESS=" + programtest.FreeAddress(t),
		"RATELIMITD_DRAIN_DELAY=2s", // TestManifestsFitTheDefaults looks at the real one
		"RATELIMITD_STORE_TIMEOUT=5s",
	}
}
