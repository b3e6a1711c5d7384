package transport

import "strconv"

// tableSize is the largest dynamic table that either side uses; HTTP/2's
// default.
const tableSize = 4096

// table is the client's dynamic table for our headers. It holds at most two
// fields, those of a reply that is no error, so that such a reply takes three
// bytes. They are put into it in whatever order they are first needed.
type table struct {
	size     uint32 // what we may use; ≤ tableSize
	resized  bool   // the next block must tell size; the table is empty then
	inserted int    // fields put in since it was empty
	kind     int    // which of those is content-type; 0: none
	status   int    // which of those is grpc-status: 0; 0: none
}

// bothFit is the size of both fields, as HPACK counts.
const bothFit = len("content-type") + len(grpcType) + 32 + len("grpc-status") + len("0") + 32

// resize follows the client's SETTINGS_HEADER_TABLE_SIZE.
func (t *table) resize(size uint32) {
	if size = min(size, tableSize); size != t.size {
		*t = table{size: size, resized: true}
	}
}

// begin begins a header block.
func (t *table) begin(b []byte) []byte {
	if !t.resized {
		return b
	}
	t.resized = false
	// To nothing first: whatever it held, now it is empty.
	return appendInt(append(b, 0x20), 0x20, 5, uint64(t.size))
}

// field appends a field of a name that has an index, or none, and notes in
// which place of the table it is.
func (t *table) field(b []byte, place *int, nameIndex uint64, name, value string) []byte {
	switch {
	case *place != 0:
		return append(b, 0x80|byte(62+t.inserted-*place))
	case t.size < uint32(bothFit):
		return appendField(b, nameIndex, name, value)
	}
	t.inserted++
	*place = t.inserted
	b = appendInt(b, 0x40, 6, nameIndex)
	if nameIndex == 0 {
		b = appendString(b, name)
	}
	return appendString(b, value)
}

// contentTypeIndex is content-type's in the static table.
const contentTypeIndex = 31

// headers appends the block that begins a reply.
func (t *table) headers(b []byte, subtype string) []byte {
	b = append(t.begin(b), status200)
	if subtype != "" {
		return appendField(b, contentTypeIndex, "", grpcType+subtype)
	}
	return t.field(b, &t.kind, contentTypeIndex, "", grpcType)
}

// trailers appends the block that ends a reply.
func (t *table) trailers(b []byte) []byte {
	return t.field(t.begin(b), &t.status, 0, "grpc-status", "0")
}

const status200 = 0x88 // :status 200 of the static table

// appendStatus appends :status.
func appendStatus(b []byte, status int) []byte {
	if status == 200 {
		return append(b, status200)
	}
	return appendField(b, 8, "", strconv.Itoa(status))
}

// appendField appends a field that the dynamic table does not take. nameIndex is
// that of name in the static table, or 0.
func appendField(b []byte, nameIndex uint64, name, value string) []byte {
	b = appendInt(b, 0, 4, nameIndex)
	if nameIndex == 0 {
		b = appendString(b, name)
	}
	return appendString(b, value)
}

func appendString(b []byte, s string) []byte {
	return append(appendInt(b, 0, 7, uint64(len(s))), s...)
}

// appendInt appends an integer whose first bits share a byte with high.
func appendInt(b []byte, high byte, bits uint, n uint64) []byte {
	most := uint64(1)<<bits - 1
	if n < most {
		return append(b, high|byte(n))
	}
	b = append(b, high|byte(most))
	for n -= most; n >= 0x80; n >>= 7 {
		b = append(b, 0x80|byte(n))
	}
	return append(b, byte(n))
}
