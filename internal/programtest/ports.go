package programtest

import (
	"fmt"
	"net"
	"sync"
	"testing"
)

// Ports are given out in blocks, one for each process of tests, so that none
// gives a port that another one has given and whose server is not there yet. They
// lie below those that the kernel gives to outgoing connections, so that none of
// these takes one while a server restarts.
const (
	firstBlock = 12_000
	blockSize  = 1_000
	endOfPorts = 32_000
)

// block is that of this process.
var block struct {
	sync.Mutex

	guard net.Listener // at its first port: the block is taken
	first int
	given int // how many ports were given
}

// FreePort returns a port of loopback at which nothing listens, for a server that
// is to come. It does not give the same one again before it has given a thousand
// others.
func FreePort(t testing.TB) int {
	t.Helper()
	block.Lock()
	defer block.Unlock()
	if block.guard == nil && !takeBlock() {
		t.Fatalf("all blocks of ports from %d to %d are taken", firstBlock, endOfPorts)
	}
	for range blockSize {
		port := block.first + 1 + block.given%(blockSize-1)
		block.given++
		if l, err := listen(port); err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatalf("all ports from %d to %d are taken", block.first, block.first+blockSize)
	return 0
}

// FreeAddress returns a loopback address with such a port.
func FreeAddress(t testing.TB) string {
	t.Helper()
	return fmt.Sprintf("127.0.0.1:%d", FreePort(t))
}

func takeBlock() bool {
	for first := firstBlock; first < endOfPorts; first += blockSize {
		if l, err := listen(first); err == nil {
			block.guard, block.first = l, first
			return true
		}
	}
	return false
}

func listen(port int) (net.Listener, error) {
	return net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
}
