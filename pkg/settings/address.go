package settings

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Address is where to listen: host:port, with an empty host for every
// interface and port 0 for any free one; or a unix socket as gRPC names it,
// unix:path or unix:///path. [Off] listens nowhere.
type Address string

// Off is the address of what does not listen.
const Off Address = "off"

// unixPrefix begins the address of a unix socket.
const unixPrefix = "unix:"

// longestSocket is how many bytes the path of a unix socket has at most.
const longestSocket = 107

// Network is the network and the address in it, as package net has them.
func (a Address) Network() (network, address string) {
	path, isUnix := strings.CutPrefix(string(a), unixPrefix)
	if !isUnix {
		return "tcp", string(a)
	}
	if strings.HasPrefix(path, "///") {
		path = path[2:]
	}
	return "unix", path
}

// isLoopback reports whether only this machine reaches the address. What
// listens nowhere is reached by nobody.
func (a Address) isLoopback() bool {
	host, _, err := net.SplitHostPort(string(a))
	if err != nil || host == "localhost" {
		return true // no address is a fault by itself
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}

func (s *Setting) checkAddress(text string) (problem string) {
	network, path := Address(text).Network()
	_, port, err := net.SplitHostPort(text)
	_, notNumber := strconv.ParseUint(port, 10, 16)
	switch {
	case s.Socket && network == "unix" && len(path) > longestSocket:
		return fmt.Sprintf("the path of %s has %d bytes, and that of a unix socket at most %d", text, len(path), longestSocket)
	case s.Socket && network == "unix" && path != "" && !strings.HasPrefix(path, "//"):
		return ""
	case network == "tcp" && err == nil && notNumber == nil, slices.Contains(s.Choices, text):
		return ""
	}
	return fmt.Sprintf("%q is no address; write %s", text, s.Allowed())
}

// allowedAddress is what an address may be, in words.
func (s *Setting) allowedAddress() string {
	words := []string{"host:port, or :port for every interface"}
	if s.Socket {
		words = append(words, unixPrefix+"path for a unix socket")
	}
	return strings.Join(append(words, s.Choices...), ", or ")
}
