package compat

import (
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// --compat does what the name does.
func TestCompatFlag(t *testing.T) {
	s := launch(t, "ratelimitd", []string{"--compat"}, redis(t))
	s.waitReady(t)
}

// What is set in vain is said once, with the reason.
func TestNotesAreLogged(t *testing.T) {
	s := start(t, append(redis(t), "REDIS_PIPELINE_WINDOW=1ms", "LOG_FORMAT=json")...)
	const line = `"level":"warn","@message":"a setting changes nothing","name":"REDIS_PIPELINE_WINDOW"`
	if n := strings.Count(s.Log.String(), line); n != 1 || !strings.Contains(s.Log.String(), `"@timestamp":`) {
		t.Errorf("said %d times", n)
	}
}

// All that is wrong is said at once, and nothing is started.
func TestFaultsStopTheStart(t *testing.T) {
	cmd := named("ratelimit")
	cmd.Env = []string{"BACKEND_TYPE=memcache", "PORT=http"}
	out, err := cmd.CombinedOutput()
	if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), `PORT: "http"`) || !strings.Contains(string(out), "BACKEND_TYPE: memcache") {
		t.Errorf("%v\n%s", err, out)
	}
}

// ratelimit_config_check and ratelimit_client, by their names.
func TestTools(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ratelimit/config/a.yaml"), policy("a", "1"))
	s := start(t, append(redis(t), "RUNTIME_ROOT="+dir, "RUNTIME_SUBDIRECTORY=ratelimit")...)
	bad, twice := t.TempDir(), t.TempDir()
	write(t, filepath.Join(bad, "a.yaml"), policy("a", "some"))
	write(t, filepath.Join(twice, "a.yaml"), policy("a", "1"))
	write(t, filepath.Join(twice, "b.yaml"), "domain: a\n")
	for _, row := range []struct {
		command string
		code    int
		want    string
	}{
		{"ratelimit_config_check -config_dir " + filepath.Join(dir, "ratelimit/config"), 0, "all rate limit configs ok"},
		{"ratelimit_config_check -config_dir " + bad, 1, "error loading rate limit configs: a.yaml:2:"},
		{"ratelimit_config_check -config_dir " + twice, 1, `duplicate domain "a" in config file`},
		{"ratelimit_config_check -merge_domain_configs -config_dir " + twice, 0, "all rate limit configs ok"},
		{"ratelimit_client -dial_string " + s.grpc + " -domain a -descriptors k=v,l=w -descriptors k=v", 0, "response: overall_code:OK"},
		{"ratelimit_client -dial_string " + s.grpc + " -domain a -descriptors k=v", 0, "response: overall_code:OVER_LIMIT"},
		{"ratelimit_client -dial_string " + s.grpc + " -descriptors k=v", 1, "request error: rpc error: code = InvalidArgument"},
		{"ratelimit_client -descriptors k", 1, `"k" is not key=value`},
	} {
		words := strings.Fields(row.command)
		cmd := named(words[0], words[1:]...)
		out, _ := cmd.CombinedOutput()
		text := strings.ReplaceAll(string(out), "  ", " ") // package prototext puts spaces where it likes
		if cmd.ProcessState.ExitCode() != row.code || !strings.Contains(text, row.want) {
			t.Errorf("%s: %d\n%s", row.command, cmd.ProcessState.ExitCode(), out)
		}
	}
}

// What the environment says is checked without a start, by ratelimitd and with the policies that it names. Whoever asks for help
// gets it, and an image whose entrypoint is ratelimitd takes the names of the programs as commands.
func TestBeforeTheStart(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "ratelimit/config/a.yaml"), policy("a", "1"))
	write(t, filepath.Join(dir, "bad/config/a.yaml"), policy("a", "some"))
	good := []string{"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=ratelimit"}
	for _, row := range []struct {
		command string
		env     []string
		code    int
		want    string
	}{
		{"check --compat", good, 0, "files 1, domains 1, limits 1"},
		{"check --compat", append(good, "REDIS_PIPELINE_WINDOW=1ms"), 0, "REDIS_PIPELINE_WINDOW changes nothing: "},
		{"check --compat", append(good, "PORT=http"), 1, `PORT: "http"`},
		{"check --compat", []string{"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=bad"}, 1, "a.yaml:2:"},
		{"check --compat", []string{"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=none"}, 1, "no such file or directory"},
		{"check --compat", []string{"RUNTIME_ROOT=" + dir, "RUNTIME_SUBDIRECTORY=ratelimit", "RUNTIME_APPDIRECTORY=none"}, 1, "no policy files in "},
		{"check --compat", nil, 1, "RUNTIME_SUBDIRECTORY is not set"},
		{"check --compat", []string{"CONFIG_TYPE=GRPC_XDS_SOTW"}, 0, "the control plane localhost:18000, which is not asked"},
		{"check --compat " + dir, good, 1, "takes the directory from RUNTIME_ROOT"},
		{"/bin/ratelimit --help", nil, 0, "ratelimitd check --compat"},
		{"/bin/ratelimit_config_check -config_dir " + filepath.Join(dir, "ratelimit/config"), nil, 0, "all rate limit configs ok"},
	} {
		cmd := named("ratelimitd", strings.Fields(row.command)...)
		cmd.Env = row.env
		out, _ := cmd.CombinedOutput() // the code is looked at
		if cmd.ProcessState.ExitCode() != row.code || !strings.Contains(string(out), row.want) {
			t.Errorf("%v ratelimitd %s: %d\n%s", row.env, row.command, cmd.ProcessState.ExitCode(), out)
		}
	}
}

// The debug pages are for this machine, unless it is said where they listen.
func TestDebugPages(t *testing.T) {
	store := redis(t)
	for host, want := range map[string]int{"": http.StatusMisdirectedRequest, "0.0.0.0": http.StatusOK} {
		s := start(t, append([]string{"DEBUG_HOST=" + host}, store...)...)
		request, err := http.NewRequest(http.MethodGet, "http://"+s.debug+"/settings", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = "ratelimit.example.com"
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("DEBUG_HOST=%s: %s", host, response.Status)
		}
	}
}
