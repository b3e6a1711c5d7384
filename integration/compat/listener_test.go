package compat

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// GRPC_UDS takes the place of the port. A socket that a killed process has left is no obstacle, one in use is.
func TestGRPCOnUnixSocket(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "grpc.sock")
	env := append([]string{"GRPC_UDS=" + socket}, redis(t)...)
	asked := func() string {
		out, err := exec.CommandContext(t.Context(), filepath.Join(binaries, "ratelimit_client"), "-dial_string", "unix:"+socket, "-domain", "any", "-descriptors", "a=b").CombinedOutput()
		if err != nil {
			return err.Error() + "\n" + string(out)
		}
		return string(out)
	}
	killed := start(t, env...)
	if err := killed.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-killed.ended
	if _, err := os.Lstat(socket); err != nil {
		t.Fatalf("a killed process leaves no socket: %v", err)
	}

	s := start(t, env...)
	if out := asked(); !strings.Contains(out, "response:") {
		t.Error(out)
	}
	second := launch(t, "ratelimit", nil, env)
	<-second.ended
	if want := "GRPC_UDS: cannot listen on unix:" + socket + ": address already in use"; !strings.Contains(second.log.String(), want) || second.cmd.ProcessState.Success() {
		t.Errorf("a second process: %s", second.log)
	}
	if out := asked(); !strings.Contains(out, "response:") {
		t.Errorf("after the second process: %s", out)
	}
	if err := s.cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	<-s.ended
	if _, err := os.Lstat(socket); err == nil {
		t.Error("the socket is still there")
	}
}
