package redistest

import (
	"slices"
	"testing"
)

// replicaLines are those with which a node follows another.
func (o Options) replicaLines() []string {
	var lines []string
	if o.Password != "" {
		lines = append(lines, "masterauth "+o.Password)
	}
	if o.User != "" {
		lines = append(lines, "masteruser "+o.User)
	}
	if o.TLS {
		lines = append(lines, "tls-replication yes")
	}
	return lines
}

// url is how the address of several servers begins, with the word of their shape.
func (o Options) url(shape string) string {
	begin := "redis" + shape + "://"
	if o.TLS {
		begin = "rediss" + shape + "://"
	}
	if o.Password != "" {
		begin += o.User + ":" + o.Password + "@"
	}
	return begin
}

// SetLogin has the server know this user and password in place of those that it
// has, and ends the connections of all its clients. No user is the default one,
// whose password is that of requirepass, and who stays beside any other.
func (s *Server) SetLogin(t testing.TB, user, password string) {
	t.Helper()
	old := s.options
	switch {
	case user != "":
		s.Do(t, "acl", "setuser", user, "on", "resetpass", ">"+password, "~*", "&*", "+@all")
	case s.sentinel:
		s.Do(t, "acl", "setuser", "default", "resetpass", ">"+password)
	default:
		s.Do(t, "config", "set", "requirepass", password)
	}
	s.options.User, s.options.Password = user, password
	admin := s.admin
	s.admin = s.Client()
	t.Cleanup(func() { _ = s.admin.Close() })
	_ = admin.Close()
	if old.User != user && old.User != "" {
		s.Do(t, "acl", "deluser", old.User) // this ends its connections too
	}
	for _, kind := range []string{"normal", "pubsub"} {
		s.Do(t, "client", "kill", "type", kind)
	}
}

// SetLogin changes the login of both nodes, and has them and the sentinel use
// it; the sentinel's own password becomes another one, too.
func (s *Sentinel) SetLogin(t testing.TB, user, password, sentinelPassword string) {
	t.Helper()
	for _, node := range s.Nodes {
		node.Do(t, "config", "set", "masterauth", password, "masteruser", user)
		node.SetLogin(t, user, password)
	}
	s.Sentinel.Do(t, "sentinel", "set", MasterName, "auth-pass", password)
	if user != "" {
		s.Sentinel.Do(t, "sentinel", "set", MasterName, "auth-user", user)
	}
	s.Sentinel.SetLogin(t, "", sentinelPassword)
	s.options.User, s.options.Password, s.options.SentinelPassword = user, password, sentinelPassword
	waitFor(t, "the replica is in step", func() bool {
		for _, node := range s.Nodes {
			if node.info(t, "replication", "master_link_status") == "up" {
				return true
			}
		}
		return false
	})
}

// SetLogin changes the login of every node.
func (c *Cluster) SetLogin(t testing.TB, user, password string) {
	t.Helper()
	for _, node := range slices.Concat(c.Masters, c.Replicas) {
		node.Do(t, "config", "set", "masterauth", password, "masteruser", user)
		node.SetLogin(t, user, password)
	}
	c.options.User, c.options.Password = user, password
}
