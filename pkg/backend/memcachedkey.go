package backend

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"math"
	"slices"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// maxPrefix is how long the prefix of a key may be, of the 250 bytes that
// memcached has for keys.
const maxPrefix = 200

// memcachedKey returns what memcached calls a counter: what stands before the hash
// tag, which is the prefix that was chosen for all of them, and a digest of all of
// it (SHA-256), since a key there is short and has no blanks, and since no two
// counters may share one whatever clients send. A prefix that memcached would not
// take is left out.
func memcachedKey(key []byte) string {
	prefix := key[:max(0, bytes.IndexByte(key, '{'))]
	if len(prefix) > maxPrefix || bytes.ContainsFunc(prefix, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		prefix = nil
	}
	sum := sha256.Sum256(key)
	return string(base64.RawURLEncoding.AppendEncode(slices.Clip(prefix), sum[:]))
}

const (
	// longestWait is how many seconds from now memcached takes at most; it reads
	// a larger number as an instant since 1970.
	longestWait = 30 * 24 * 60 * 60

	// lateInstant is how much longer, in seconds, what has an instant is kept: its
	// clock need not be ours.
	lateInstant = 60 * 60

	// goneAtOnce is what memcached takes for a time that is over.
	goneAtOnce = -1

	// never is what it takes for no time at all.
	never = 0
)

// expiration says, as memcached wants it, until when a state is kept that equals
// one never seen from an instant on. Waits are counted from now, so that
// memcached's clock does not matter. Where it does, for what is more than 30 days
// away, an hour more is kept. What is beyond the year 2038, for which the client
// has no number, is kept until memcached needs the room.
func expiration(expiry, now int64) int32 {
	const second = int64(time.Second / time.Microsecond)
	if expiry <= now {
		return goneAtOnce
	}
	wait := (expiry-now+second-1)/second + int64(slack/time.Second)
	if wait <= longestWait {
		return int32(wait)
	}
	at := (expiry+second-1)/second + lateInstant
	if at > math.MaxInt32 {
		return never
	}
	return int32(at)
}

// counter is a counter of a batch, as it stands at a server.
type counter struct {
	key    string
	limit  *algorithm.Limit // by which its state is read and written
	stored []byte           // what the server holds
	cas    uint64           // by which it is known whether that has changed
	found  bool

	state algorithm.State // as decided
	err   error           // why it could not be read, or written
	lost  bool            // somebody else was quicker
}
