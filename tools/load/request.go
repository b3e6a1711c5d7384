package main

import (
	"encoding/binary"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// domain is that of all requests.
const domain = "bench"

// encodeRequests returns gRPC messages, one for each of n values of a
// descriptor's key. Further descriptors of a request have the values that
// follow.
func encodeRequests(key string, n, descriptors int) [][]byte {
	messages := make([][]byte, n)
	for i := range messages {
		m := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), domain)
		for d := range descriptors {
			entry := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), key)
			entry = protowire.AppendString(protowire.AppendTag(entry, 2, protowire.BytesType), value(i+d*n/descriptors, n))
			descriptor := protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), entry)
			m = protowire.AppendBytes(protowire.AppendTag(m, 2, protowire.BytesType), descriptor)
		}
		messages[i] = append(binary.BigEndian.AppendUint32([]byte{0}, uint32(len(m))), m...)
	}
	return messages
}

// value is the i-th of n values.
func value(i, n int) string { return "u" + strconv.Itoa(i%n) }

// overallCode returns the code of a reply, the first field of its message, and
// 0, which is no code, for what is not such a reply.
func overallCode(framed []byte) uint64 {
	const prefix = 5 // compressed or not, and the length
	if len(framed) < prefix {
		return 0
	}
	number, kind, n := protowire.ConsumeTag(framed[prefix:])
	if n < 0 || number != 1 || kind != protowire.VarintType {
		return 0
	}
	code, m := protowire.ConsumeVarint(framed[prefix+n:])
	if m < 0 {
		return 0
	}
	return code
}
