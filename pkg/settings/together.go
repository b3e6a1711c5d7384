package settings

import (
	"os"
	"strings"
)

// checkTogether finds faults that no setting has on its own, and reads the
// file of the password.
func (s *Settings) checkTogether(faults *ErrorList) {
	s.readPassword(faults)
	if (s.RedisTLSCertFile == "") != (s.RedisTLSKeyFile == "") {
		faults.add("redis_tls_cert_file, redis_tls_key_file", "go together; set both or none")
	}
	for _, file := range [...]struct{ name, path string }{
		{"redis_tls_ca_file", s.RedisTLSCAFile}, {"redis_tls_cert_file", s.RedisTLSCertFile}, {"redis_tls_key_file", s.RedisTLSKeyFile},
	} {
		if file.path == "" {
			continue
		}
		if _, err := os.Stat(file.path); err != nil {
			faults.add(file.name, file.path+": "+plain(err))
		}
	}
}

func (s *Settings) readPassword(faults *ErrorList) {
	if s.RedisPasswordFile == "" {
		return
	}
	if s.RedisPassword != "" {
		faults.add("redis_password, redis_password_file", "are two passwords; set one of them")
		return
	}
	text, err := os.ReadFile(s.RedisPasswordFile)
	if err != nil {
		faults.add("redis_password_file", s.RedisPasswordFile+": "+plain(err))
		return
	}
	s.RedisPassword = Secret(strings.TrimRight(string(text), "\r\n"))
}
