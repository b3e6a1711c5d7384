package service

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Codec returns the codec for a server that [Service.Register] adds to: it
// takes the bytes of an [Exchange] as they are, and leaves every other message
// to the protobuf library.
func Codec() encoding.CodecV2 {
	return codec{CodecV2: encoding.GetCodecV2(proto.Name)}
}

type codec struct{ encoding.CodecV2 }

func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	e, ok := v.(*Exchange)
	if !ok {
		return c.CodecV2.Unmarshal(data, v)
	}
	e.Request = data.Materialize() // grpc reuses data
	return nil
}

func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	e, ok := v.(*Exchange)
	if !ok {
		return c.CodecV2.Marshal(v)
	}
	return mem.BufferSlice{mem.SliceBuffer(e.Reply)}, nil
}
