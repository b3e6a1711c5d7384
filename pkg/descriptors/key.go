package descriptors

import (
	"crypto/sha256"
	"encoding/base64"
	"hash/crc32"
	"strconv"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// slotTable is of CRC-32C, which processors compute by themselves.
var slotTable = crc32.MakeTable(crc32.Castagnoli)

// A counter key is
//
//	{xx}1 domain key value key value … suffix
//
// where the domain and each key and value is a netstring without its comma:
// decimal length, a colon, raw bytes. The suffix says which limit of which
// rule counts; it always has the same length, so what stands before it can
// only be read in one way, and no two keys are equal unless all their parts
// are. A body (all after the 1) of more than longestBody bytes is replaced:
//
//	{xx}2 SHA-256 of the body
//
// Where values are hidden, each is a hash by then, 3 stands for 1, and 4 for 2, so
// that nobody can bring the hash of another's value along as his own.
//
// All of it comes after [Options].KeyPrefix, which has no brace.
//
// xx is a hash of domain, first key and first value in hexadecimal. In a Redis
// Cluster it alone decides the slot: descriptors that begin alike are in one
// slot, there are at most 256 slots in use, and no brace in a value moves a
// key. Any change here renames every counter.

const (
	plainVersion  = '1'
	hiddenVersion = '3'
	longVersion   = 1 // is added for a body that is replaced

	longestBody  = 256
	suffixLength = 16

	// hashedInPlace is the longest body that is first written out and then
	// hashed. A longer one would leave the caller with a buffer of that size.
	hashedInPlace = 8 << 10
)

// AppendKey appends the key of the limit's counter for the entries, which are
// those that the limit's rule was matched with, or any for an override, after
// [Rules.Hide]. It
// does not allocate when dst has room for 300 bytes and the entries are
// shorter than that.
func (l *Limit) AppendKey(dst []byte, entries []Entry) []byte {
	domain, path := l.Rule.Domain, l.Rule.Path
	size := len(domain.head) + suffixLength
	for i := range entries {
		size += netstringLength(len(entries[i].Key)) + netstringLength(len(counted(path, entries, i)))
	}
	if size > hashedInPlace {
		return l.appendLongKey(dst, entries)
	}
	dst = append(append(dst, domain.prefix...), "{00}"...)
	dst = append(dst, domain.version)
	begin := len(dst)
	slot := begin - len("00}1")
	dst = append(dst, domain.head...)
	for i := range entries {
		dst = appendNetstring(dst, entries[i].Key)
		dst = appendNetstring(dst, counted(path, entries, i))
		if i == 0 {
			setSlot(dst[slot:], crc32.Checksum(dst[begin:], slotTable))
		}
	}
	dst = append(dst, l.suffix[:]...)
	if size > longestBody {
		sum := sha256.Sum256(dst[begin:])
		dst = append(dst[:begin], sum[:]...)
		dst[begin-1] += longVersion
	}
	return dst
}

// AppendOverrideKey appends the key of an override's counter: that of the
// domain, the entries and the override's window.
func (d *Domain) AppendOverrideKey(dst []byte, l *Limit, entries []Entry) []byte {
	return l.AppendKey(dst, entries)
}

// appendLongKey hashes the body piece by piece.
func (l *Limit) appendLongKey(dst []byte, entries []Entry) []byte {
	domain, path := l.Rule.Domain, l.Rule.Path
	body, crc := sha256.New(), uint32(0)
	write := func(p []byte) {
		body.Write(p)
		crc = crc32.Update(crc, slotTable, p)
	}
	dst = append(append(dst, domain.prefix...), "{00}"...)
	dst = append(dst, domain.version+longVersion)
	slot := len(dst) - len("00}2")
	var length [24]byte
	write(domain.head)
	for i := range entries {
		key, value := entries[i].Key, counted(path, entries, i)
		write(appendLength(length[:0], len(key)))
		write(key)
		write(appendLength(length[:0], len(value)))
		write(value)
		if i == 0 {
			setSlot(dst[slot:], crc)
		}
	}
	body.Write(l.suffix[:])
	return body.Sum(dst)
}

// counted returns what stands for the value of an entry in a counter key: the
// pattern, where it shares its counter, else the value.
func counted(path []PathEntry, entries []Entry, i int) []byte {
	if i < len(path) && path[i].Share {
		return path[i].shared
	}
	return entries[i].Value
}

// setSlot writes the hash as two hexadecimal digits.
func setSlot(dst []byte, hash uint32) {
	const digits = "0123456789abcdef"
	hash ^= hash >> 16
	hash ^= hash >> 8
	dst[0], dst[1] = digits[hash>>4&15], digits[hash&15]
}

func appendLength(dst []byte, n int) []byte {
	return append(strconv.AppendInt(dst, int64(n), 10), ':')
}

func appendNetstring[T string | []byte](dst []byte, s T) []byte {
	return append(appendLength(dst, len(s)), s...)
}

// netstringLength returns the length of the netstring of n bytes.
func netstringLength(n int) int {
	length := n + len("0:")
	for ; n >= 10; n /= 10 {
		length++
	}
	return length
}

// identity is what tells a limit of a rule from all limits of all rules, besides
// the entries. The name counts only where the rest does not tell two limits of
// a rule apart; the region, where there is one, and where without one two limits
// of a rule would share a counter.
type identity struct {
	rule     *Rule
	limit    *algorithm.Limit
	name     string
	region   string
	regional bool
}

// suffix hashes the domain, the path as written, the algorithm, the window, the
// name and, if that counts, the region.
func (i *identity) suffix() (suffix [suffixLength]byte) {
	id := appendNetstring(nil, i.rule.Domain.Name)
	for _, entry := range i.rule.Path {
		id = appendNetstring(id, entry.Key)
		id = appendNetstring(id, entry.Value)
	}
	id = appendNetstring(id, i.limit.Algorithm.Name)
	id = appendNetstring(id, strconv.FormatInt(i.limit.Window.Microseconds(), 10))
	id = appendNetstring(id, calendarIdentity(i.limit.Calendar))
	id = appendNetstring(id, i.name)
	if i.regional { // an even number of parts, where there is an odd one else
		id = appendNetstring(id, i.region)
	}
	sum := sha256.Sum256(id)
	base64.RawURLEncoding.Encode(suffix[:], sum[:suffixLength*3/4])
	return suffix
}

// calendarIdentity is empty for a window that follows no calendar.
func calendarIdentity(c *algorithm.Calendar) string {
	if c == nil {
		return ""
	}
	zone := "UTC"
	if c.Zone != nil {
		zone = c.Zone.String()
	}
	return strconv.Itoa(int(c.Unit)) + " " + zone
}

// overrideSuffix is ! and the window in µs, in hexadecimal; with a region it is
// ? and a hash of both. A rule's suffix has neither ! nor ?.
func overrideSuffix(windowµs int64, region string) (suffix [suffixLength]byte) {
	const digits = "0123456789abcdef"
	suffix[0] = '!'
	for i := suffixLength - 1; i > 0; i-- {
		suffix[i] = digits[windowµs&15]
		windowµs >>= 4
	}
	if region == "" {
		return suffix
	}
	sum := sha256.Sum256(append(suffix[:], region...))
	suffix[0] = '?'
	var text [suffixLength]byte
	base64.RawURLEncoding.Encode(text[:], sum[:suffixLength*3/4])
	copy(suffix[1:], text[:])
	return suffix
}
