package programtest

import (
	"net"
	"testing"
)

// No port is given twice, nor one at which somebody listens.
func TestFreePort(t *testing.T) {
	taken, err := net.Listen("tcp", FreeAddress(t))
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	seen := map[int]bool{taken.Addr().(*net.TCPAddr).Port: true}
	for range blockSize - 2 {
		port := FreePort(t)
		if seen[port] {
			t.Fatalf("%d was given twice", port)
		}
		seen[port] = true
	}
	if port := FreePort(t); port == taken.Addr().(*net.TCPAddr).Port {
		t.Errorf("%d was given, at which somebody listens", port)
	}
}
