package backend

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
)

// RedisKind is the shape of a Redis deployment.
type RedisKind uint8

const (
	// RedisSingle is one server, or a proxy or a name that stands for one.
	RedisSingle RedisKind = iota
	// RedisSentinel is a master that sentinels watch and replace.
	RedisSentinel
	// RedisCluster is a Redis Cluster.
	RedisCluster
)

func (k RedisKind) String() string { return [...]string{"single", "sentinel", "cluster"}[k] }

// RedisServer says where Redis is and as whom to log in. [ParseRedisURL] reads
// one from a URL; a program may fill or change the fields itself.
type RedisServer struct {
	Kind RedisKind

	// Addresses are host:port: of the server, of sentinels, or of some nodes
	// of the Cluster. One that begins with "/" is the path of a unix socket.
	Addresses []string

	// MasterName is what sentinels call the master.
	MasterName string

	// Username and Password log in to Redis; empty for a server that asks for
	// none. The other pair logs in to sentinels.
	Username, Password                 string
	SentinelUsername, SentinelPassword string

	// DB is the number of the database. A Cluster has only 0.
	DB int

	// TLS encrypts connections, those to sentinels too.
	TLS bool
}

// String describes the server without its secrets.
func (s RedisServer) String() string {
	text := s.Kind.String() + " " + strings.Join(s.Addresses, ",")
	if s.MasterName != "" {
		text += " master " + s.MasterName
	}
	if s.TLS {
		text += " over TLS"
	}
	return text
}

// redisSchemes says what a URL's scheme means.
var redisSchemes = map[string]RedisServer{
	"redis":           {Kind: RedisSingle},
	"rediss":          {Kind: RedisSingle, TLS: true},
	"unix":            {Kind: RedisSingle},
	"redis+sentinel":  {Kind: RedisSentinel},
	"rediss+sentinel": {Kind: RedisSentinel, TLS: true},
	"redis+cluster":   {Kind: RedisCluster},
	"rediss+cluster":  {Kind: RedisCluster, TLS: true},
}

const redisForms = "redis://host:port/db, rediss://… (TLS), unix:///path, redis://host:port,host:port (Cluster), " +
	"redis+cluster://host:port or redis+sentinel://host:port,host:port/master/db"

// ParseRedisURL reads where Redis is:
//
//	redis://[user:password@]host[:port][/db]                 one server
//	redis://[user:password@]host[:port],host[:port]          a Cluster
//	redis+cluster://[user:password@]host[:port]              a Cluster known by one node
//	redis+sentinel://[user:password@]host[:port],…/master[/db]
//	unix://[user:password@]/path[?db=n]
//
// With rediss in place of redis connections are encrypted. The scheme may be
// left out. The parameters db, sentinel_username and sentinel_password may
// follow a "?". User and password are percent-encoded. No error shows them.
func ParseRedisURL(text string) (RedisServer, error) {
	server, err := parseRedisURL(strings.TrimSpace(text))
	if err != nil {
		return RedisServer{}, fmt.Errorf("redis URL: %w", err)
	}
	return server, nil
}

func parseRedisURL(text string) (RedisServer, error) {
	if text == "" {
		return RedisServer{}, fmt.Errorf("is empty; one of %s", redisForms)
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "redis", text
		if strings.HasPrefix(text, "/") {
			scheme = "unix"
		}
	}
	s, known := redisSchemes[strings.ToLower(scheme)]
	if !known {
		scheme, _, _ = strings.Cut(scheme, ":") // what follows may be a password
		return s, fmt.Errorf("scheme %q is not known; one of %s", scheme, redisForms)
	}
	rest, err := s.parseLogin(rest)
	if err != nil {
		return s, err
	}
	rest, query, _ := strings.Cut(rest, "?")
	if strings.EqualFold(scheme, "unix") {
		if !strings.HasPrefix(rest, "/") {
			return s, fmt.Errorf("a unix socket needs a path that begins with /, as in unix:///run/redis.sock")
		}
		path, err := url.PathUnescape(rest)
		if err != nil {
			return s, fmt.Errorf("the path of the unix socket is not percent-encoded rightly")
		}
		s.Addresses = []string{path}
		return s, s.parseQuery(query)
	}
	hosts, path, _ := strings.Cut(rest, "/")
	if err := s.parseHosts(hosts); err != nil {
		return s, err
	}
	if err := s.parsePath(path); err != nil {
		return s, err
	}
	return s, s.parseQuery(query)
}

// parseLogin takes user:password@ from the front. An @ further on is refused:
// what comes before it may be part of a password, which messages would show.
func (s *RedisServer) parseLogin(rest string) (string, error) {
	authority := rest
	if end := strings.IndexAny(rest, "/?"); end >= 0 {
		authority = rest[:end]
	}
	at := strings.LastIndexByte(rest, '@')
	switch {
	case at < 0:
		return rest, nil
	case at >= len(authority):
		return "", fmt.Errorf("/, ? and @ in a user, a password, a path or a parameter have to be written as %%2F, %%3F and %%40")
	}
	user, password, _ := strings.Cut(authority[:at], ":")
	var err1, err2 error
	s.Username, err1 = url.PathUnescape(user)
	s.Password, err2 = url.PathUnescape(password)
	if err1 != nil || err2 != nil {
		return "", fmt.Errorf("the user or the password is not percent-encoded rightly (a %% is written as %%25)")
	}
	return rest[at+1:], nil
}

func (s *RedisServer) parseHosts(hosts string) error {
	port := "6379"
	if s.Kind == RedisSentinel {
		port = "26379"
	}
	for host := range strings.SplitSeq(hosts, ",") {
		address, err := parseAddress(strings.TrimSpace(host), port)
		if err != nil {
			return err
		}
		s.Addresses = append(s.Addresses, address)
	}
	if s.Kind == RedisSingle && len(s.Addresses) > 1 {
		s.Kind = RedisCluster
	}
	return nil
}

// parseAddress checks host[:port], and adds the port that is left out.
func parseAddress(text, port string) (string, error) {
	host := text
	if h, p, err := net.SplitHostPort(text); err == nil {
		host, port = h, p
	} else if strings.HasPrefix(text, "[") && strings.HasSuffix(text, "]") {
		host = text[1 : len(text)-1]
	} else if strings.Contains(text, ":") {
		return "", fmt.Errorf("%q is not host:port (an IPv6 address stands in brackets)", text)
	}
	if host == "" || strings.ContainsAny(host, " \t@/[]") {
		return "", fmt.Errorf("%q has no host", text)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return "", fmt.Errorf("the port of %q is not a number from 1 to 65535", host) // it may be a password
	}
	return net.JoinHostPort(host, port), nil
}

func (s *RedisServer) parsePath(path string) error {
	path = strings.TrimSuffix(path, "/")
	if s.Kind == RedisSentinel {
		name, db, _ := strings.Cut(path, "/")
		if name == "" {
			return fmt.Errorf("the name of the master is missing, as in redis+sentinel://host:port/name")
		}
		unescaped, err := url.PathUnescape(name)
		if err != nil {
			return fmt.Errorf("the name of the master is not percent-encoded rightly")
		}
		s.MasterName, path = unescaped, db
	}
	return s.parseDB(path)
}

func (s *RedisServer) parseDB(text string) error {
	if text == "" {
		return nil
	}
	n, err := strconv.ParseUint(text, 10, 31)
	switch {
	case err != nil:
		return fmt.Errorf("the database is not a number")
	case s.Kind == RedisCluster && n != 0:
		return fmt.Errorf("a Cluster has no database %d, only 0", n)
	}
	s.DB = int(n)
	return nil
}

func (s *RedisServer) parseQuery(query string) error {
	values, err := url.ParseQuery(query)
	if err != nil {
		return fmt.Errorf("the parameters are not percent-encoded rightly")
	}
	for name, all := range values {
		value := all[len(all)-1]
		switch name {
		case "db":
			if err := s.parseDB(value); err != nil {
				return err
			}
		case "sentinel_username":
			s.SentinelUsername = value
		case "sentinel_password":
			s.SentinelPassword = value
		default:
			return fmt.Errorf("parameter %q is not known; one of db, sentinel_username, sentinel_password", name)
		}
	}
	return nil
}
