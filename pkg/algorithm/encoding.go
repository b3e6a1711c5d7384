package algorithm

import "encoding/binary"

// A state that a store keeps as bytes begins with what it is; then its numbers
// follow as varints: At, Used and Aux, or the instants of a log, each but the
// first as its distance from the one before.
const (
	encodedNumbers = 1
	encodedLog     = 2
)

// AppendState appends a state of a key of the limit as bytes.
func (l *Limit) AppendState(b []byte, s *State) []byte {
	if l.Algorithm != SlidingWindowLog {
		b = append(b, encodedNumbers)
		for _, n := range [...]int64{s.At, s.Used, s.Aux} {
			b = binary.AppendUvarint(b, uint64(n))
		}
		return b
	}
	b = append(b, encodedLog)
	last := int64(0)
	for _, at := range s.Log {
		b, last = binary.AppendUvarint(b, uint64(at-last)), at
	}
	return b
}

// DecodeState reads what AppendState has written, be it for another limit with the
// same algorithm. Anything else is [ErrCorrupt].
func (l *Limit) DecodeState(b []byte) (State, error) {
	switch {
	case len(b) == 0:
		return State{}, ErrCorrupt
	case b[0] == encodedNumbers && l.Algorithm != SlidingWindowLog:
		return l.decodeNumbers(b[1:])
	case b[0] == encodedLog && l.Algorithm == SlidingWindowLog:
		return decodeLog(b[1:])
	}
	return State{}, ErrCorrupt
}

func (l *Limit) decodeNumbers(b []byte) (State, error) {
	var s State
	for _, to := range [...]*int64{&s.At, &s.Used, &s.Aux} {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > hugeState {
			return State{}, ErrCorrupt
		}
		*to, b = int64(n), b[size:]
	}
	if len(b) > 0 || l.Algorithm.bucket && s.Used > 0 && s.Aux < 1 {
		return State{}, ErrCorrupt
	}
	return s, nil
}

func decodeLog(b []byte) (State, error) {
	var s State
	at := uint64(0)
	for len(b) > 0 {
		n, size := binary.Uvarint(b)
		if size <= 0 || n > hugeState || at+n > hugeState || len(s.Log) > MaxLogRequests {
			return State{}, ErrCorrupt
		}
		at += n
		s.Log, b = append(s.Log, int64(at)), b[size:]
	}
	return s, nil
}
