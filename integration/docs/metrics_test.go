package docs

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/internal/programtest"
	"github.com/ratelimitd/ratelimitd/internal/redistest"
)

// metricsPage holds the table of metrics, which begins with metricsHead.
const (
	metricsPage = "docs/operations.md"
	metricsHead = "| metric | type | labels | meaning |\n| --- | --- | --- | --- |\n"
)

// TestMetricsTable compares the table with what running programs show, one on each store. -update writes it anew.
func TestMetricsTable(t *testing.T) {
	all := map[string]*metricFamily{}
	scrape(t, all, startProgram(t, "RATELIMITD_STORE=memory", "RATELIMITD_GRPC_CONNECTION_AGE=50ms", "RATELIMITD_XDS_SERVER=127.0.0.1:1", "RATELIMITD_TRACING=true"), nil)
	redis := redistest.Start(t, redistest.Options{})
	scrape(t, all, startProgram(t, "RATELIMITD_STORE=redis", "RATELIMITD_STORE_TIMEOUT=5s", "RATELIMITD_REDIS_URL="+redis.URL()), redis.Kill)
	cache := redistest.StartMemcached(t, redistest.MemcachedOptions{})
	scrape(t, all, startProgram(t, "RATELIMITD_STORE=memcached", "RATELIMITD_STORE_TIMEOUT=5s", "RATELIMITD_MEMCACHED_SERVERS="+cache.Address), cache.Kill)

	var want strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		want.WriteString(all[name].row(name))
	}
	text, err := os.ReadFile(filepath.Join(root, metricsPage))
	if err != nil {
		t.Fatal(err)
	}
	before, after, found := strings.Cut(string(text), metricsHead)
	if !found {
		t.Fatalf("%s has no table that begins with\n%s", metricsPage, metricsHead)
	}
	got, after, _ := strings.Cut(after, "\n\n")
	if got+"\n" == want.String() {
		return
	}
	if !*update {
		t.Fatalf("%s does not tell the metrics as they are; go test ./integration/docs -run TestMetricsTable -update. They are\n%s", metricsPage, want.String())
	}
	if err := os.WriteFile(filepath.Join(root, metricsPage), []byte(before+metricsHead+want.String()+"\n"+after), 0o600); err != nil {
		t.Fatal(err)
	}
}

// metricFamily is what is known of a metric.
type metricFamily struct {
	kind, help string
	labels     map[string]map[string]bool // by name: the values seen
}

// closed are the labels whose values are few, and all seen here.
var closed = []string{"denied_by", "outcome", "kind", "policy", "priority", "result", "store", "to", "verb"}

func (m *metricFamily) row(name string) string {
	var labels []string
	for _, label := range slices.Sorted(maps.Keys(m.labels)) {
		text := "`" + label + "`"
		if slices.Contains(closed, label) {
			text += ": " + strings.Join(slices.Sorted(maps.Keys(m.labels[label])), ", ")
		}
		labels = append(labels, text)
	}
	return fmt.Sprintf("| `%s` | %s | %s | %s |\n", name, m.kind, strings.Join(labels, "<br>"), m.help)
}

// program is a running ratelimitd.
type program struct{ grpc, http string }

// metricsPolicy has a limit for each outcome of a decision.
const metricsPolicy = `domain: edge
descriptors:
  - {key: open, rate_limit: {requests_per_unit: 10, window: 100h}}
  - {key: near, rate_limit: {requests_per_unit: 1, window: 100h}}
  - {key: shut, rate_limit: {requests_per_unit: 0, window: 100h}}
  - {key: tried, shadow_mode: true, rate_limit: {requests_per_unit: 0, window: 100h}}
`

func startProgram(t *testing.T, env ...string) *program {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "edge.yaml"), []byte(metricsPolicy), 0o600); err != nil {
		t.Fatal(err)
	}
	at := [3]string{programtest.FreeAddress(t), programtest.FreeAddress(t), programtest.FreeAddress(t)}
	cmd := exec.Command(ratelimitdPath, "serve")
	cmd.Env = slices.Concat(env, []string{
		"RATELIMITD_POLICIES=" + dir, "RATELIMITD_GRPC_ADDRESS=" + at[0], "RATELIMITD_HTTP_ADDRESS=" + at[1], "RATELIMITD_ADMIN_ADDRESS=" + at[2],
	})
	programtest.Start(t, cmd)
	p := &program{grpc: at[0], http: "http://" + at[1]}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if resp, err := http.Get(p.http + "/healthcheck"); err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return p
			}
		}
	}
	t.Fatal("ratelimitd does not become ready")
	return nil
}

// ask sends one descriptor; more are fields of it, in JSON.
func (p *program) ask(t *testing.T, key, more string) {
	t.Helper()
	body := fmt.Sprintf(`{"domain": "edge", "descriptors": [{"entries": [{"key": %q, "value": "x"}]%s}]}`, key, more)
	resp, err := http.Post(p.http+"/json", "application/json", bytes.NewReader([]byte(body)))
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode == http.StatusBadRequest {
		t.Fatalf("%s: status 400", body)
	}
}

var (
	metricComment = regexp.MustCompile(`^# (HELP|TYPE) (ratelimitd_\w+) (.*)$`)
	metricSample  = regexp.MustCompile(`^(ratelimitd_\w+?)(?:_bucket|_sum|_count)?\{(.*)\} `)
	metricLabel   = regexp.MustCompile(`(\w+)="((?:[^"\\]|\\.)*)"`)
)

// scrape makes every outcome happen and takes in what the program then shows. breakStore, if not nil, takes the store away.
func scrape(t *testing.T, all map[string]*metricFamily, p *program, breakStore func()) {
	t.Helper()
	p.ask(t, "open", "")
	p.ask(t, "near", "")
	p.ask(t, "near", "")
	p.ask(t, "near", `, "hitsAddend": 2`)
	p.ask(t, "near", `, "hitsAddend": 1, "isNegativeHits": true`)
	p.ask(t, "shut", "")
	p.ask(t, "tried", "")
	if breakStore != nil {
		breakStore()
		p.ask(t, "open", "")
	} else {
		p.growOld(t)
	}
	for line := range strings.Lines(p.metrics(t)) {
		line = strings.TrimSpace(line)
		if found := metricComment.FindStringSubmatch(line); found != nil {
			m := all[found[2]]
			if m == nil {
				m = &metricFamily{labels: map[string]map[string]bool{}}
				all[found[2]] = m
			}
			if found[1] == "HELP" {
				m.help = found[3]
			} else {
				m.kind = found[3]
			}
		}
		if found := metricSample.FindStringSubmatch(line); found != nil {
			all[familyOf(all, line, found[1])].see(found[2])
		}
	}
}

func (p *program) metrics(t *testing.T) string {
	t.Helper()
	resp, err := http.Get(p.http + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// growOld keeps a connection of HTTP/2 until the program has asked it to close.
func (p *program) growOld(t *testing.T) {
	t.Helper()
	conn, err := net.Dial("tcp", p.grpc)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	const preface, settings = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\x00\x00\x00\x04\x00\x00\x00\x00\x00"
	if _, err := io.WriteString(conn, preface+settings); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if strings.Contains(p.metrics(t), "ratelimitd_grpc_goaways_total{") {
			return
		}
	}
	t.Fatal("an old connection is not asked to close")
}

// familyOf returns the metric of a sample's name, which may end in _count by itself.
func familyOf(all map[string]*metricFamily, line, name string) string {
	if full := line[:strings.IndexByte(line, '{')]; all[full] != nil {
		return full
	}
	return name
}

// see takes in the labels of a sample.
func (m *metricFamily) see(labels string) {
	for _, found := range metricLabel.FindAllStringSubmatch(labels, -1) {
		if found[1] == "le" {
			continue
		}
		if m.labels[found[1]] == nil {
			m.labels[found[1]] = map[string]bool{}
		}
		m.labels[found[1]][found[2]] = true
	}
}
