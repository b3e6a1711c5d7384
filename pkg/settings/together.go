package settings

import (
	"fmt"
	"os"
	"strings"
)

// checkTogether finds faults that no setting has on its own, and reads the
// files of the secrets.
func (s *Settings) checkTogether(faults *ErrorList) {
	s.checkPasswords(faults)
	s.readToken(faults)
	s.readHashKey(faults)
	s.checkAdmin(faults)
	s.checkGRPCTLS(faults)
	s.checkXDS(faults)
	s.checkStatsd(faults)
	s.checkMemcached(faults)
	if (s.RedisTLSCertFile == "") != (s.RedisTLSKeyFile == "") {
		faults.add("redis_tls_cert_file, redis_tls_key_file", "go together; set both or none")
	}
	for _, file := range [...]struct{ name, path string }{
		{"redis_tls_ca_file", s.RedisTLSCAFile}, {"redis_tls_cert_file", s.RedisTLSCertFile}, {"redis_tls_key_file", s.RedisTLSKeyFile},
		{"memcached_tls_ca_file", s.MemcachedTLSCAFile}, {"memcached_tls_cert_file", s.MemcachedTLSCertFile}, {"memcached_tls_key_file", s.MemcachedTLSKeyFile},
		{"xds_tls_ca_file", s.XDSTLSCAFile}, {"xds_tls_cert_file", s.XDSTLSCertFile}, {"xds_tls_key_file", s.XDSTLSKeyFile},
		{"admin_tls_cert_file", s.AdminTLSCertFile}, {"admin_tls_key_file", s.AdminTLSKeyFile}, {"admin_tls_client_ca_file", s.AdminTLSClientCAFile},
		{"grpc_tls_cert_file", s.GRPCTLSCertFile}, {"grpc_tls_key_file", s.GRPCTLSKeyFile}, {"grpc_tls_client_ca_file", s.GRPCTLSClientCAFile},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.Stat(file.path); err != nil {
			faults.add(file.name, file.path+": "+plain(err))
		}
	}
}

// checkPasswords finds files that hold no password. What they hold is for when a
// connection is made, since it may change.
func (s *Settings) checkPasswords(faults *ErrorList) {
	for _, row := range [...]struct {
		name, file string
		password   Secret
	}{
		{"redis_password", s.RedisPasswordFile, s.RedisPassword},
		{"redis_sentinel_password", s.RedisSentinelPasswordFile, s.RedisSentinelPassword},
	} {
		if text, ok := secretIn(row.file, row.password, row.name, "passwords", faults); ok && text == "" {
			faults.add(row.name+"_file", row.file+": is empty; it has to hold the password")
		}
	}
}

// readSecret reads a secret from its file, if it has one.
func (s *Settings) readSecret(secret *Secret, file, name, what string, faults *ErrorList) {
	if text, ok := secretIn(file, *secret, name, what, faults); ok {
		*secret = text
		s.origins[name] = name + "_file"
	}
}

// secretIn returns what the file of a secret holds; ok is false when there is
// no file, or a fault.
func secretIn(file string, beside Secret, name, what string, faults *ErrorList) (secret Secret, ok bool) {
	if file == "" {
		return "", false
	}
	if beside != "" {
		faults.add(name+", "+name+"_file", "are two "+what+"; set one of them")
		return "", false
	}
	text, err := os.ReadFile(file)
	if err != nil {
		faults.add(name+"_file", file+": "+plain(err))
		return "", false
	}
	return Secret(strings.TrimRight(string(text), "\r\n")), true
}

// leastToken is the length of the shortest token that nobody guesses.
const leastToken = 16

func (s *Settings) readToken(faults *ErrorList) {
	before := len(faults.Errors)
	s.readSecret(&s.AdminToken, s.AdminTokenFile, "admin_token", "tokens", faults)
	if len(faults.Errors) > before || s.AdminToken == "" && s.AdminTokenFile == "" {
		return
	}
	token := s.AdminToken.Reveal()
	if len(token) < leastToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		faults.add("admin_token", "is no token; write at least 16 characters of printable ASCII without spaces, as openssl rand -hex 32 makes them")
	}
}

// leastHashKey is the length in bytes of the shortest key that nobody guesses.
const leastHashKey = 16

func (s *Settings) readHashKey(faults *ErrorList) {
	before := len(faults.Errors)
	s.readSecret(&s.HashValuesKey, s.HashValuesKeyFile, "hash_values_key", "keys", faults)
	key := s.HashValuesKey.Reveal()
	switch {
	case len(faults.Errors) > before:
	case !s.HashValues && (key != "" || s.HashValuesKeyFile != ""):
		faults.add("hash_values_key", "is not used while hash_values is false; set both or none")
	case s.HashValues && key == "" && s.HashValuesKeyFile == "":
		faults.add("hash_values_key", "is missing, and hash_values needs it; write what openssl rand -hex 32 makes, here or into hash_values_key_file")
	case s.HashValues && len(key) < leastHashKey:
		faults.add("hash_values_key", fmt.Sprintf("has %d bytes, and hash_values needs %d or more; write what openssl rand -hex 32 makes, here or into hash_values_key_file", len(key), leastHashKey))
	}
}

// checkAdmin finds admin pages that anybody could see.
func (s *Settings) checkAdmin(faults *ErrorList) {
	switch {
	case (s.AdminTLSCertFile == "") != (s.AdminTLSKeyFile == ""):
		faults.add("admin_tls_cert_file, admin_tls_key_file", "go together; set both or none")
	case s.AdminTLSClientCAFile != "" && s.AdminTLSCertFile == "":
		faults.add("admin_tls_client_ca_file", "needs admin_tls_cert_file and admin_tls_key_file")
	case s.AdminToken == "" && s.AdminTokenFile == "" && s.AdminTLSClientCAFile == "" && !s.AdminAddress.isLoopback():
		faults.add("admin_address", string(s.AdminAddress)+" is not on loopback, so anybody could see the admin pages and profile the program; set "+
			"admin_token, admin_token_file, or admin_tls_client_ca_file with admin_tls_cert_file and admin_tls_key_file, or an address like 127.0.0.1:6070")
	}
}

// checkGRPCTLS finds demands on clients that would not be checked.
func (s *Settings) checkGRPCTLS(faults *ErrorList) {
	switch {
	case (s.GRPCTLSCertFile == "") != (s.GRPCTLSKeyFile == ""):
		faults.add("grpc_tls_cert_file, grpc_tls_key_file", "go together; set both or none")
	case s.GRPCTLSClientCAFile != "" && s.GRPCTLSCertFile == "":
		faults.add("grpc_tls_client_ca_file", "needs grpc_tls_cert_file and grpc_tls_key_file")
	case s.GRPCTLSClientSAN != "" && s.GRPCTLSClientCAFile == "":
		faults.add("grpc_tls_client_san", "needs grpc_tls_client_ca_file")
	}
}
