package service

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Codec returns the codec for a server that [Service.Register] adds to: it
// decodes a *Request itself, leniently, and leaves every other message to the
// protobuf library.
func Codec() encoding.CodecV2 {
	return codec{CodecV2: encoding.GetCodecV2(proto.Name)}
}

type codec struct{ encoding.CodecV2 }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	request, ok := v.(*Request)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	request.Reset()
	for _, buffer := range data {
		request.wire = append(request.wire, buffer.ReadOnlyData()...)
	}
	// grpc would answer an error from here by itself, and with Internal: so
	// what is malformed is kept for the check of the request to say.
	_ = request.decode()
	return nil
}
