package settings

import (
	"fmt"
	"net"
	"strconv"
	"strings"
)

// ParsePairs reads name=value,name=value. A value may have more = in it, but
// no comma. Spaces around names and values do not count.
func ParsePairs(text string) (map[string]string, error) {
	pairs := make(map[string]string)
	if strings.TrimSpace(text) == "" {
		return pairs, nil
	}
	for i, piece := range strings.Split(text, ",") {
		name, value, ok := strings.Cut(piece, "=")
		name = strings.TrimSpace(name)
		switch _, twice := pairs[name]; {
		case !ok || name == "":
			return nil, fmt.Errorf("part %d is not name=value; write name=value,name=value", i+1)
		case twice:
			return nil, fmt.Errorf("has the name %q twice", name)
		}
		pairs[name] = strings.TrimSpace(value)
	}
	return pairs, nil
}

// checkXDS finds what cannot be told to a control plane, and what would not be.
func (s *Settings) checkXDS(faults *ErrorList) {
	if _, err := ParsePairs(s.XDSNodeMetadata); err != nil {
		faults.add("xds_node_metadata", err.Error())
	}
	headers, err := ParsePairs(s.XDSHeaders.Reveal())
	if err != nil {
		faults.add("xds_headers", err.Error())
	}
	for name, value := range headers {
		if !isHeader(name, value) {
			faults.add("xds_headers", fmt.Sprintf("%q is no header; a name has letters, digits and -_. and does not begin with grpc-, and a value is printable ASCII", name))
		}
	}
	switch files := s.XDSTLSCAFile + s.XDSTLSCertFile + s.XDSTLSKeyFile + s.XDSTLSServerName; {
	case files != "" && !s.XDSTLS:
		faults.add("xds_tls_ca_file, xds_tls_cert_file, xds_tls_key_file, xds_tls_server_name", "mean nothing without xds_tls: true")
	case (s.XDSTLSCertFile == "") != (s.XDSTLSKeyFile == ""):
		faults.add("xds_tls_cert_file, xds_tls_key_file", "go together; set both or none")
	}
}

// checkStatsd finds what metrics cannot be sent to, or with.
func (s *Settings) checkStatsd(faults *ErrorList) {
	if s.StatsdAddress != "" {
		host, port, err := net.SplitHostPort(s.StatsdAddress)
		if _, notNumber := strconv.ParseUint(port, 10, 16); err != nil || notNumber != nil || host == "" {
			faults.add("statsd_address", fmt.Sprintf("%q is no address; write host:port", s.StatsdAddress))
		}
	}
	if _, err := ParsePairs(s.StatsdTags); err != nil {
		faults.add("statsd_tags", err.Error())
	}
}

func isHeader(name, value string) bool {
	odd := func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("-_.", r)
	}
	unprintable := func(r rune) bool { return r < ' ' || r > '~' }
	return !strings.ContainsFunc(name, odd) && !strings.HasPrefix(strings.ToLower(name), "grpc-") && !strings.ContainsFunc(value, unprintable)
}
