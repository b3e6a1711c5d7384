package main

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/ratelimitd/ratelimitd/pkg/settings"
)

// maxAdminConnections is how many clients of the admin pages there may be.
const maxAdminConnections = 64

// listeners are the sockets of the program.
type listeners struct {
	grpc, http net.Listener
	admin      net.Listener // nil: off
}

// listen opens all sockets, or none. The error names the settings of all that
// cannot be opened.
func listen(s *settings.Settings) (*listeners, error) {
	l := &listeners{}
	var faults []error
	for _, socket := range [...]struct {
		setting string
		address settings.Address
		to      *net.Listener
	}{
		{"grpc_address", s.GRPCAddress, &l.grpc}, {"http_address", s.HTTPAddress, &l.http}, {"admin_address", s.AdminAddress, &l.admin},
	} {
		if socket.address == settings.Off {
			continue
		}
		listener, err := open(socket.address)
		if err != nil {
			faults = append(faults, fmt.Errorf("%s: cannot listen on %s: %w%s", s.Called(socket.setting), socket.address, reason(err), hint(err)))
			continue
		}
		*socket.to = listener
	}
	if err := errors.Join(faults...); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func open(a settings.Address) (net.Listener, error) {
	network, address := a.Network()
	if network == "unix" {
		return listenUnix(address)
	}
	return net.Listen(network, address)
}

// shown is an address as the settings have it.
func shown(a net.Addr) string {
	if a.Network() == "unix" {
		return "unix:" + a.String()
	}
	return a.String()
}

func (l *listeners) close() {
	for _, listener := range []net.Listener{l.grpc, l.http, l.admin} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// reason is the error without the address, which the message has already.
func reason(err error) error {
	if op, ok := errors.AsType[*net.OpError](err); ok {
		return op.Err
	}
	return err
}

func hint(err error) string {
	op, ok := errors.AsType[*net.OpError](err)
	isUnix := ok && op.Net == "unix"
	switch {
	case isUnix && errors.Is(err, syscall.ENOENT):
		return "; its directory has to be there"
	case isUnix && errors.Is(err, syscall.EINVAL):
		return "; the path of a socket has 107 bytes at most"
	case isUnix && errors.Is(err, syscall.EACCES):
		return "; its directory has to be writable"
	case errors.Is(err, syscall.EADDRINUSE):
		return "; another program listens there, or set another address"
	case errors.Is(err, syscall.EACCES):
		return "; ports below 1024 need a privilege"
	}
	return ""
}
