package reload

import (
	"crypto/sha256"
	"encoding/binary"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// part is the policies of one origin. The rules in force are made of two.
type part struct {
	newest  set
	inForce set       // no files before the first good ones
	err     error     // why newest is not in force; nil if it is
	failed  time.Time // when err was first found
}

// enforced notes that files are in force, and nothing newer is there.
func (p *part) enforced(files set) { p.inForce, p.err = files, nil }

// set is files, and what tells them from others.
type set struct {
	files []descriptors.File
	sum   fingerprint
}

// fingerprint is equal for equal files, and for equal errors of reading. It is
// zero for none that were ever looked for.
type fingerprint [sha256.Size]byte

func newSet(files []descriptors.File, err error) set {
	hash := sha256.New()
	add := func(text []byte) {
		_ = binary.Write(hash, binary.BigEndian, int64(len(text)))
		hash.Write(text)
	}
	if err != nil {
		add([]byte(err.Error()))
		files = nil
	}
	for _, file := range files {
		add([]byte(file.Name))
		add(file.Text)
	}
	return set{files, fingerprint(hash.Sum(nil))}
}
