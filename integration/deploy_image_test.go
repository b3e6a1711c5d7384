package integration

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// No container engine is needed to know the image: its one binary, built by the line of the Dockerfile, is static and runs;
// its user, its Go and its entry point are what the pod and go.mod expect.
func TestDockerfile(t *testing.T) {
	d := buildManifests(t).deployment(t, "ratelimitd")
	first, last, found := strings.Cut(readDeployed(t, "k8s/Dockerfile"), "\nFROM scratch\n")
	if !found {
		t.Fatal("the last stage is not from scratch")
	}
	for _, want := range []string{"COPY --from=build /ratelimitd /ratelimitd", "COPY --from=build /names/ /", "USER 65532:65532", `ENTRYPOINT ["/ratelimitd"]`} {
		if !strings.Contains(last, want+"\n") {
			t.Errorf("the last stage does not have %s", want)
		}
	}
	if s := d.Template.Spec.SecurityContext; s.RunAsUser != 65532 || s.RunAsGroup != 65532 {
		t.Errorf("the pod runs as %d:%d", s.RunAsUser, s.RunAsGroup)
	}
	if len(d.container().Command) > 0 || strings.Join(d.container().Args, " ") != "serve" {
		t.Errorf("the pod runs %q %q", d.container().Command, d.container().Args)
	}

	module, err := os.ReadFile("../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	if version := regexp.MustCompile(`(?m)^go (\d+\.\d+)`).FindSubmatch(module)[1]; !strings.Contains(first, "FROM golang:"+string(version)+" AS build\n") {
		t.Errorf("go.mod asks for Go %s, and the Dockerfile has another", version)
	}

	build := regexp.MustCompile(`(?m)^RUN (CGO_ENABLED=0 go build .*)$`).FindStringSubmatch(first)
	if build == nil {
		t.Fatal("there is no line that builds a static binary")
	}
	binary := filepath.Join(t.TempDir(), "ratelimitd")
	cmd := exec.Command("sh", "-c", strings.Replace(build[1], "-o /ratelimitd", "-o "+binary, 1))
	cmd.Dir = ".."
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := elf.Open(binary)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for _, program := range file.Progs {
		if program.Type == elf.PT_INTERP {
			t.Error("the binary needs a dynamic linker, and from scratch there is none")
		}
	}
	if out, err := exec.Command(binary, "version").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "ratelimitd ") {
		t.Errorf("version: %v\n%s", err, out)
	}
}
