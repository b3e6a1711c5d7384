package docs

import (
	"io"
	"net"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// command is a command of a console block and the output that the page shows.
type command struct {
	text   string
	output []string
	first  int // index of the output in the block
}

// commands reads a console block: a command begins with "$ " and goes on after a backslash at a line's end, or on lines that
// begin with "> "; what follows is its output.
func (b *block) commands(t *testing.T) []*command {
	t.Helper()
	var all []*command
	open := false // the command has not ended
	for i, line := range b.lines {
		switch text, begins := strings.CutPrefix(line, "$ "); {
		case begins && !open:
			all = append(all, &command{text: text, first: i + 1})
			open = strings.HasSuffix(text, `\`)
		case len(all) == 0:
			t.Fatalf("%s: a console block begins with a command, after \"$ \"", b.at)
		case open || strings.HasPrefix(line, "> ") && len(all[len(all)-1].output) == 0:
			c := all[len(all)-1]
			text = strings.TrimPrefix(line, "> ")
			c.text, c.first = c.text+"\n"+text, i+1
			open = strings.HasSuffix(text, `\`)
		default:
			all[len(all)-1].output = append(all[len(all)-1].output, line)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s: a console block without a command", b.at)
	}
	return all
}

// always are what is different each time on every page.
var always = []*regexp.Regexp{
	regexp.MustCompile(`(?i)date: .*`),
	regexp.MustCompile(`x-envoy-upstream-service-time: \d+`),
	regexp.MustCompile(`time=\d{4}-\S+`),
}

// console runs the commands of a block, one after another, and compares what they print.
func (s *session) console(t *testing.T, p *page, b *block) {
	t.Helper()
	if b.fresh {
		if left := time.Minute - time.Duration(time.Now().UnixNano())%time.Minute; left < 20*time.Second {
			time.Sleep(left)
		}
	}
	commands := b.commands(t)
	if b.has("background") {
		t.Fatalf("%s: write `console background`, in this order", b.at)
	}
	shift := 0 // of lines, by rewriting
	for _, c := range commands {
		printed, status := s.run(t, c.text)
		got := outputLines(printed)
		if want := b.has("fails"); (status != 0) != want {
			t.Fatalf("%s: `%s` ended with status %d:\n%s", b.at, c.text, status, printed)
		}
		if b.expects(c.output, false).MatchString(b.mask(got)) {
			continue
		}
		if !*update {
			t.Fatalf("%s: $ %s\nprinted\n%s\nthe page shows\n%s", b.at, c.text, strings.Join(got, "\n"), strings.Join(c.output, "\n"))
		}
		p.rewrite(t, b.first+c.first+shift, len(c.output), got)
		shift += len(got) - len(c.output)
	}
}

// outputLines splits an output into lines, as a page would show them.
func outputLines(printed string) []string {
	printed = strings.TrimRight(strings.ReplaceAll(printed, "\r", ""), "\n")
	if printed == "" {
		return nil
	}
	return strings.Split(printed, "\n")
}

// mask joins lines and hides what is different each time.
func (b *block) mask(lines []string) string {
	var text strings.Builder
	for _, line := range lines {
		for _, pattern := range slices.Concat(always, b.varies) {
			line = pattern.ReplaceAllString(line, "~")
		}
		text.WriteString(line + "\n")
	}
	return text.String()
}

// expects makes a pattern of an output as a page shows it: … is anything in a line, alone in a line any number of lines.
// Of what goes on running, more may follow.
func (b *block) expects(output []string, more bool) *regexp.Regexp {
	var pattern strings.Builder
	pattern.WriteString(`\A`)
	for line := range strings.Lines(b.mask(output)) {
		line = strings.TrimSuffix(line, "\n")
		if strings.TrimSpace(line) == "…" {
			pattern.WriteString(`(?:[^\n]*\n)*`)
			continue
		}
		pattern.WriteString(strings.ReplaceAll(regexp.QuoteMeta(line), "…", `[^\n]*`) + `\n`)
	}
	if !more {
		pattern.WriteString(`\z`)
	}
	return regexp.MustCompile(pattern.String())
}

// terminal is a program that goes on running while the page goes on.
type terminal struct {
	shell  *exec.Cmd
	output *transcript
	ended  chan struct{}
}

// background starts the command of a block and waits until it has printed what the page shows.
func (s *session) background(t *testing.T, b *block) {
	t.Helper()
	commands := b.commands(t)
	if len(commands) != 1 {
		t.Fatalf("%s: one command goes on running in a terminal, not %d", b.at, len(commands))
	}
	c := commands[0]
	w := &terminal{output: newTranscript(t), ended: make(chan struct{})}
	w.shell = s.bash(t, w.output, "-c", watched+s.here(c.text))
	if err := w.shell.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(w.ended)
		_ = w.shell.Wait() // it is killed
	}()
	s.running = append(s.running, w)
	expected := b.expects(c.output, true)
	w.await(t, s, b, func() bool { return expected.MatchString(b.mask(outputLines(s.there(w.output.all())))) })
	if strings.Contains(c.text, "envoy -c") || strings.Contains(c.text, "demo") {
		w.await(t, s, b, s.envoyIsReady)
	}
}

// await waits until a condition holds.
func (w *terminal) await(t *testing.T, s *session, b *block, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(10 * time.Millisecond) {
		select {
		case <-w.ended:
			t.Fatalf("%s: the command ended:\n%s", b.at, s.there(w.output.all()))
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("%s: after %v the command had printed\n%s\nthe page shows\n%s", b.at, patience, s.there(w.output.all()), b.text())
		}
	}
}

// envoyIsReady says whether Envoy takes requests and counts ratelimitd as healthy. Before that it would let requests through.
func (s *session) envoyIsReady() bool {
	address := s.here("127.0.0.1:9901")
	resp, err := http.Get("http://" + address + "/stats?filter=cluster.ratelimitd.membership_healthy")
	if err != nil {
		return false
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	conn, refused := net.Dial("tcp", s.here("127.0.0.1:10000"))
	if refused == nil {
		conn.Close()
	}
	return err == nil && refused == nil && strings.Contains(string(text), "membership_healthy: 1")
}

// stop ends what runs in the background, as Ctrl-C does, and kills what does not end. Programs that a shell has started may end
// after it, so it waits for their ports too.
func (s *session) stop() {
	for _, w := range s.running {
		_ = syscall.Kill(-w.shell.Process.Pid, syscall.SIGTERM) // it may have ended
	}
	for end := time.Now().Add(20 * time.Second); len(s.running) > 0 && !s.portsFree() && time.Now().Before(end); {
		time.Sleep(10 * time.Millisecond)
	}
	for _, w := range s.running {
		_ = syscall.Kill(-w.shell.Process.Pid, syscall.SIGKILL)
		<-w.ended
	}
	s.running = nil
}
