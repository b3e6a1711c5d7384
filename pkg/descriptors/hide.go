package descriptors

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"hash"
	"sync"
)

// hiddenLength is how many bytes stand for a hidden value: 128 bits in base64,
// so that two values share a counter by chance once in 2^64 of them.
const hiddenLength = 22

// Hiding turns values of descriptors into keyed hashes: the first half of
// HMAC-SHA-256. Who has the hash and not the key can neither tell the value nor
// try values out; who has both can try. It is safe for concurrent use.
type Hiding struct {
	hashers     sync.Pool // of *hasher
	fingerprint string
}

// hasher is the memory that a hash is worked out in.
type hasher struct {
	mac hash.Hash
	sum [sha256.Size]byte
}

// NewHiding returns the hiding of a key, which is of any length; with fewer than
// 16 random bytes it can be guessed.
func NewHiding(key []byte) *Hiding {
	key = append([]byte(nil), key...)
	h := &Hiding{hashers: sync.Pool{New: func() any { return &hasher{mac: hmac.New(sha256.New, key)} }}}
	mac := hmac.New(sha256.New, key)
	mac.Write([]byte("ratelimitd: which key is this?"))
	h.fingerprint = hex.EncodeToString(mac.Sum(nil)[:4])
	return h
}

// Fingerprint is eight characters that tell keys apart, and nothing of the key.
// All replicas that share counts show the same.
func (h *Hiding) Fingerprint() string { return h.fingerprint }

// Hide puts hashes in the place of the values of entries, in text that it
// appends to dst, if that is how the rules were compiled. The rule is that of
// the entries, or nil: values that it spells out stay as they are. It does not
// allocate when dst has room for 22 bytes an entry.
//
// It comes before [Limit.AppendKey]; after it nobody sees the values any more.
func (r *Rules) Hide(dst []byte, rule *Rule, entries []Entry) []byte {
	if r.hiding == nil {
		return dst
	}
	h := r.hiding.hashers.Get().(*hasher)
	defer r.hiding.hashers.Put(h)
	for i := range entries {
		if rule != nil && rule.Path[i].Value == string(entries[i].Value) {
			continue
		}
		from := len(dst)
		dst = h.append(dst, entries[i].Value)
		entries[i].Value = dst[from:len(dst):len(dst)]
	}
	return dst
}

func (h *hasher) append(dst, value []byte) []byte {
	h.mac.Reset()
	h.mac.Write(value)
	return base64.RawURLEncoding.AppendEncode(dst, h.mac.Sum(h.sum[:0])[:sha256.Size/2])
}
