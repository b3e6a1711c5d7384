package settings

import "strings"

// memcachedRows are those of the memcached store.
func memcachedRows(s *Settings) []Setting {
	return []Setting{
		{
			Name: "memcached_servers", target: &s.MemcachedServers,
			Doc: "Where memcached is: host:port or paths of unix sockets, with commas between them. All replicas need the same servers, in any order.",
		},
		{
			Name: "memcached_srv", target: &s.MemcachedSRV,
			Doc: "A DNS name such as _memcached._tcp.example.com whose SRV records list the servers, in place of memcached_servers.",
		},
		{
			Name: "memcached_srv_refresh", target: &s.MemcachedSRVRefresh, Default: "0s", Min: "0s", Max: "24h",
			Doc: "How often it is asked for again, a second at least; what fails leaves the servers as they are. 0s asks until there is an answer, and never again.",
		},
		{
			Name: "memcached_connections", target: &s.MemcachedConnections, Default: "16", Min: "16", Max: "1000",
			Doc: "How many connections to each server are kept, and how many charges travel at once.",
		},
		{
			Name: "memcached_tls", target: &s.MemcachedTLS, Default: "false",
			Doc: "Whether connections are encrypted.",
		},
		{
			Name: "memcached_tls_ca_file", target: &s.MemcachedTLSCAFile,
			Doc: "A PEM file with the authorities that may sign memcached's certificate. Empty is the system's. The files of memcached_tls_… are read again " +
				"for each connection; while they are bad, the last good ones serve, and the log says so.",
		},
		{
			Name: "memcached_tls_cert_file", target: &s.MemcachedTLSCertFile,
			Doc: "A PEM file with this client's certificate.",
		},
		{
			Name: "memcached_tls_key_file", target: &s.MemcachedTLSKeyFile,
			Doc: "A PEM file with the key of memcached_tls_cert_file.",
		},
		{
			Name: "memcached_tls_any_name", target: &s.MemcachedTLSAnyName, Default: "false",
			Doc: "Take a certificate that is for another host, if only it is of an authority.",
		},
	}
}

// MemcachedAddresses are those of MemcachedServers.
func (s *Settings) MemcachedAddresses() []string {
	var all []string
	for address := range strings.SplitSeq(s.MemcachedServers, ",") {
		if address = strings.TrimSpace(address); address != "" {
			all = append(all, address)
		}
	}
	return all
}

// checkMemcached finds a memcached that is nowhere, or at two places.
func (s *Settings) checkMemcached(faults *ErrorList) {
	servers := len(s.MemcachedAddresses()) > 0
	switch {
	case s.Store == StoreMemcached && !servers && s.MemcachedSRV == "":
		faults.add("store", "memcached needs memcached_servers or memcached_srv, which say where it is")
	case servers && s.MemcachedSRV != "":
		faults.add("memcached_servers, memcached_srv", "both say where memcached is; set one of them")
	}
	if (s.MemcachedTLSCertFile == "") != (s.MemcachedTLSKeyFile == "") {
		faults.add("memcached_tls_cert_file, memcached_tls_key_file", "go together; set both or none")
	}
}
