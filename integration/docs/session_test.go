package docs

import (
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
)

// patience bounds a command of the documentation. Few take a second, where the machine is idle.
const patience = 2 * time.Minute

// session is a reader at a terminal, in a checkout of the project: a copy of the tree in which the usual ports are others,
// so that pages run beside anything else on the machine. ratelimitd, envoy and the fetched tools are on the PATH.
type session struct {
	dir     string
	env     []string
	ports   map[string]string // of the page → of this session
	back    map[string]string // the other way
	shell   *exec.Cmd
	input   io.Writer
	output  *transcript
	running []*terminal // in the background
}

// usualPorts are those that pages name: ratelimitd's, a second one's, Envoy's and Redis'.
var usualPorts = []string{"8080", "8081", "6070", "8090", "8091", "6071", "9901", "10000", "10001", "10002", "6379"}

// An address in a command, an argument, or a file of Envoy. A number in JSON is none.
var usualAddress = regexp.MustCompile(`(localhost:|127\.0\.0\.1[:/]|0\.0\.0\.0:|[= ]:|"?port_value"?: ?|--port |-p )(` + strings.Join(usualPorts, "|") + `)\b|":(` + strings.Join(usualPorts, "|") + `)"`)

func newSession(t *testing.T) *session {
	t.Helper()
	s := &session{dir: t.TempDir(), ports: map[string]string{}, back: map[string]string{}}
	for _, port := range usualPorts {
		free := strconv.Itoa(programtest.FreePort(t))
		s.ports[port], s.back[free] = free, port
	}
	s.copyTree(t)
	path := s.tools(t)
	s.env = []string{
		"PATH=" + path + ":" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LC_ALL=C.UTF-8", "GOFLAGS=-trimpath",
		s.here("RATELIMITD_GRPC_ADDRESS=127.0.0.1:8081"), s.here("RATELIMITD_HTTP_ADDRESS=127.0.0.1:8080"),
		s.here("RATELIMITD_ADMIN_ADDRESS=127.0.0.1:6070"), s.here("RATELIMITD_REDIS_URL=redis://127.0.0.1:6379"),
		"RATELIMITD_STORE_TIMEOUT=5s", "RATELIMITD_DRAIN_DELAY=0s",
	}
	for _, name := range []string{"GOCACHE", "GOMODCACHE", "GOPATH", "GOPROXY", "GOSUMDB"} { // go finds them by HOME
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		s.env = append(s.env, name+"="+strings.TrimSpace(string(value)))
	}
	t.Cleanup(s.end)
	return s
}

func isFree(port string) bool {
	listener, err := net.Listen("tcp", "127.0.0.1:"+port)
	if err == nil {
		listener.Close()
	}
	return err == nil
}

// portsFree says whether nothing of the session listens any longer.
func (s *session) portsFree() bool {
	for port := range s.back {
		if !isFree(port) {
			return false
		}
	}
	return true
}

// copyTree copies the files of the project, with the session's ports. Answers may be late, for the machine may be busy;
// the samples' time-out would make Envoy let such requests through.
func (s *session) copyTree(t *testing.T) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		switch info, err := entry.Info(); {
		case err != nil:
			return err
		case entry.IsDir() && (relative == ".git" || relative == ".tools" || relative == "bin"):
			return filepath.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(s.dir, relative), 0o700)
		case !info.Mode().IsRegular():
			return nil
		default:
			return s.copyFile(path, relative, info)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

func (s *session) copyFile(path, relative string, info fs.FileInfo) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if strings.HasPrefix(relative, "deploy/") || strings.HasPrefix(relative, "config/") {
		text = []byte(strings.ReplaceAll(s.here(string(text)), "timeout: 0.1s\n", "timeout: 10s\n"))
	}
	copied := filepath.Join(s.dir, relative)
	if err := os.WriteFile(copied, text, info.Mode()); err != nil {
		return err
	}
	return os.Chtimes(copied, info.ModTime(), info.ModTime()) // make compares them
}

// version is the end of a fetched tool's name.
var version = regexp.MustCompile(`-v?\d[\d.]*$`)

// outside are programs that a test must not run, for they might reach somebody's cluster.
var outside = []string{"docker", "helm", "istioctl", "kubectl"}

// tools makes a folder of the programs that commands may use, and puts those that make has fetched where make looks.
func (s *session) tools(t *testing.T) string {
	t.Helper()
	fetched, err := filepath.Abs(filepath.Join(root, ".tools"))
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	links := map[string]string{filepath.Join(bin, "ratelimitd"): ratelimitdPath, filepath.Join(s.dir, ".tools"): fetched}
	files, err := os.ReadDir(fetched)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files { // envoy-1.40.0 is envoy
		if name := version.ReplaceAllString(file.Name(), ""); !file.IsDir() {
			links[filepath.Join(bin, name)] = filepath.Join(fetched, file.Name())
		}
	}
	for link, to := range links {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range outside {
		script := "#!/bin/sh\necho " + name + " reaches beyond this machine: mark the block as not run >&2\nexit 1\n"
		if err := os.WriteFile(filepath.Join(bin, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return bin
}

// here replaces the ports of the page by those of the session.
func (s *session) here(text string) string {
	return usualAddress.ReplaceAllStringFunc(text, func(address string) string {
		digits := regexp.MustCompile(`\d+"?$`).FindString(address)
		port := strings.TrimSuffix(digits, `"`)
		return strings.TrimSuffix(address, digits) + s.ports[port] + strings.TrimPrefix(digits, port)
	})
}

// there is the way back.
func (s *session) there(text string) string {
	for port, usual := range s.back {
		text = strings.ReplaceAll(text, port, usual)
	}
	return text
}

// write writes a file of a page.
func (s *session) write(t *testing.T, file, text string) {
	t.Helper()
	path := filepath.Join(s.dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	text = strings.ReplaceAll(s.here(text), "timeout: 0.1s\n", "timeout: 10s\n")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// endOf closes the output of a command; the status follows.
const endOf = "\x01end "

// run runs a command in the session's shell and returns what it printed and its status.
func (s *session) run(t *testing.T, command string) (printed string, status int) {
	t.Helper()
	if s.shell == nil {
		s.start(t)
	}
	before := len(s.output.all())
	fmt.Fprintf(s.input, "{ %s\n} </dev/null 2>&1; printf '%s%%d\\n' $?\n", s.here(command), endOf)
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		printed, code, ended := strings.Cut(s.output.all()[before:], endOf)
		if !ended || !strings.HasSuffix(code, "\n") {
			continue
		}
		status, err := strconv.Atoi(strings.TrimSpace(code))
		if err != nil {
			t.Fatal(err)
		}
		return s.there(printed), status
	}
	t.Fatalf("%s\nhas not ended after %v; so far it printed\n%s", command, patience, s.output.all()[before:])
	return "", 0
}

// start starts the shell.
func (s *session) start(t *testing.T) {
	t.Helper()
	s.output = newTranscript(t)
	s.shell = s.bash(t, s.output)
	input, err := s.shell.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	s.input = input
	if err := s.shell.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(s.input, watched)
}

// watched begins what a bash does: its processes end when this one does, however that ends, for then nobody holds the other end
// of file 3 any longer.
const watched = "{ read -r -u 3; kill -KILL 0; } >/dev/null 2>&1 & exec 3<&-; "

// bash returns a bash in a process group of its own, which is not started yet.
func (s *session) bash(t *testing.T, output *transcript, args ...string) *exec.Cmd {
	t.Helper()
	watch, held, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		watch.Close()
		held.Close()
	})
	shell := exec.Command("bash", append([]string{"--noprofile", "--norc"}, args...)...)
	shell.Dir, shell.Env, shell.ExtraFiles = s.dir, s.env, []*os.File{watch}
	shell.Stdout, shell.Stderr = output.file, output.file
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return shell
}

// end ends all that the session has started.
func (s *session) end() {
	s.stop()
	if s.shell != nil {
		_ = syscall.Kill(-s.shell.Process.Pid, syscall.SIGKILL)
		_ = s.shell.Wait() // killed
	}
}

// transcript is a file that programs write into while it is read. It needs no goroutine, so that a program which outlives its
// shell holds nothing up.
type transcript struct{ file *os.File }

func newTranscript(t *testing.T) *transcript {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "transcript"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return &transcript{file}
}

// all returns what was written so far; nothing when it cannot be read, which the comparison then tells.
func (o *transcript) all() string {
	text, _ := os.ReadFile(o.file.Name())
	return string(text)
}
