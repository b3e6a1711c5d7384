package backend

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

func TestParseRedisURL(t *testing.T) {
	for text, want := range map[string]RedisServer{
		"redis://h":                  {Addresses: []string{"h:6379"}},
		"redis://h:1/3":              {Addresses: []string{"h:1"}, DB: 3},
		"REDIS://h:1/":               {Addresses: []string{"h:1"}},
		"h:1":                        {Addresses: []string{"h:1"}},
		"/run/r.sock":                {Addresses: []string{"/run/r.sock"}},
		"redis://[::1]:7":            {Addresses: []string{"[::1]:7"}},
		"redis://[::1]":              {Addresses: []string{"[::1]:6379"}},
		"redis://u:p%40%2F%25@h:1":   {Addresses: []string{"h:1"}, Username: "u", Password: "p@/%"},
		"redis://:p:q@r@h:1":         {Addresses: []string{"h:1"}, Password: "p:q@r"},
		"rediss://u:p@h:1?db=2":      {Addresses: []string{"h:1"}, Username: "u", Password: "p", DB: 2, TLS: true},
		"unix:///run/r.sock?db=1":    {Addresses: []string{"/run/r.sock"}, DB: 1},
		"unix://u:p@/run/r%20s.sock": {Addresses: []string{"/run/r s.sock"}, Username: "u", Password: "p"},
		"redis://a:1,b:2, c:3":       {Kind: RedisCluster, Addresses: []string{"a:1", "b:2", "c:3"}},
		"rediss+cluster://:p@h":      {Kind: RedisCluster, Addresses: []string{"h:6379"}, Password: "p", TLS: true},
		"redis+sentinel://a,b:2/m":   {Kind: RedisSentinel, Addresses: []string{"a:26379", "b:2"}, MasterName: "m"},
		"redis+sentinel://u:p@a/m%2F/4?sentinel_password=s%26&sentinel_username=w": {Kind: RedisSentinel, Addresses: []string{"a:26379"},
			MasterName: "m/", DB: 4, Username: "u", Password: "p", SentinelUsername: "w", SentinelPassword: "s&"},
	} {
		got, err := ParseRedisURL(text)
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v, %v\nwant %+v", text, got, err, want)
		}
	}
}

func TestParseRedisURLErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                            "redis URL: is empty; one of " + redisForms,
		"http://h":                    `redis URL: scheme "http" is not known; one of ` + redisForms,
		"redis://":                    `redis URL: "" has no host`,
		"redis://u:hush":              `redis URL: the port of "u" is not a number from 1 to 65535`,
		"redis://h:0":                 `redis URL: the port of "h" is not a number from 1 to 65535`,
		"redis://h:70000":             `redis URL: the port of "h" is not a number from 1 to 65535`,
		"redis://::1":                 `redis URL: "::1" is not host:port (an IPv6 address stands in brackets)`,
		"redis://a,,b":                `redis URL: "" has no host`,
		"redis://h/x":                 `redis URL: the database is not a number`,
		"redis://h,i/1":               "redis URL: a Cluster has no database 1, only 0",
		"redis://h?timeout=3":         `redis URL: parameter "timeout" is not known; one of db, sentinel_username, sentinel_password`,
		"redis+sentinel://h":          "redis URL: the name of the master is missing, as in redis+sentinel://host:port/name",
		"unix://r.sock":               "redis URL: a unix socket needs a path that begins with /, as in unix:///run/redis.sock",
		"redis://u:hush%zz@h":         "redis URL: the user or the password is not percent-encoded rightly (a % is written as %25)",
		"redis://u:hush/x@h":          "redis URL: /, ? and @ in a user, a password, a path or a parameter have to be written as %2F, %3F and %40",
		"redis://u:hush?x@h":          "redis URL: /, ? and @ in a user, a password, a path or a parameter have to be written as %2F, %3F and %40",
		"redis+sentinel://u:hush@h:x": `redis URL: the port of "h" is not a number from 1 to 65535`,
	} {
		_, err := ParseRedisURL(text)
		if fmt.Sprint(err) != want {
			t.Errorf("%s:\n got %v\nwant %s", text, err, want)
		}
	}
}

// Whatever is pasted into the setting, no message shows the password, and what
// is accepted can be dialed.
func FuzzParseRedisURL(f *testing.F) {
	f.Add("redis://", "h:1/2")
	f.Add("redis+sentinel://", "h:1,i/name?db=1")
	f.Add("unix://", "/path")
	f.Add("", "[::1]:2")
	f.Fuzz(func(t *testing.T, scheme, rest string) {
		const secret = "vErYsEcReT"
		server, err := ParseRedisURL(scheme + "user:" + secret + "@" + rest)
		if strings.Contains(fmt.Sprint(err), secret) || strings.Contains(server.String(), secret) {
			t.Errorf("shows the password: %v %s", err, server)
		}
		if server, err := ParseRedisURL(scheme + rest); err == nil {
			if len(server.Addresses) == 0 || server.DB < 0 || server.Kind == RedisSentinel && server.MasterName == "" {
				t.Errorf("accepted, though it cannot be dialed: %+v", server)
			}
		}
	})
}
