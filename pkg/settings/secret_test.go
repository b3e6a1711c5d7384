package settings

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func newFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	AddFlags(flags)
	return flags
}

func TestSecretsAreNeverPrinted(t *testing.T) {
	s, err := load(t, "", []string{
		"RATELIMITD_REDIS_PASSWORD=hunter2", "RATELIMITD_REDIS_SENTINEL_PASSWORD=hunter2",
		"RATELIMITD_REDIS_URL=redis://user:hunter2@host:1/0?sentinel_password=hunter2",
	})
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&out, verb+"\n", s)
		fmt.Fprintf(&out, verb+verb+"\n", s.RedisPassword, s.RedisURL)
	}
	for _, log := range []*slog.Logger{slog.New(slog.NewTextHandler(&out, nil)), slog.New(slog.NewJSONHandler(&out, nil))} {
		log.Info("all", "settings", *s, "password", s.RedisPassword, "url", s.RedisURL)
	}
	if err := json.NewEncoder(&out).Encode(s); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(&out, s.Values())
	for _, leak := range []string{"hunter2", fmt.Sprintf("%x", "hunter2")} {
		if strings.Contains(strings.ToLower(out.String()), leak) {
			t.Errorf("%s is in\n%s", leak, &out)
		}
	}
	if s.RedisPassword.Reveal() != "hunter2" || s.RedisURL.Reveal() != "redis://user:hunter2@host:1/0?sentinel_password=hunter2" {
		t.Error("Reveal does not")
	}
}

func TestURLsShowAllButThePassword(t *testing.T) {
	for url, want := range map[URL]string{
		"":                                   "",
		"redis://h:1/0":                      "redis://h:1/0",
		"redis://u:p@h:1,i:2/0?db=3":         "redis://u:********@h:1,i:2/0?db=3",
		"redis://:p@h:1":                     "redis://:********@h:1",
		"redis://u@h:1":                      "redis://u@h:1",
		"unix:///run/redis.sock":             "unix:///run/redis.sock",
		"redis://u:p%zz@h":                   "redis://u:********@h",
		"redis://u:p:q@r/s?t@h":              "redis://u:********@h",
		"u:p@h":                              "u:********@h",
		"redis://h?sentinel_Password=p&db=1": "redis://h?sentinel_Password=********&db=1",
	} {
		if got := url.String(); got != want {
			t.Errorf("%s: got %s, want %s", url.Reveal(), got, want)
		}
	}
}
