package statsd

import (
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A line is name:value|type, and maybe |@rate and |#tag:value,tag:value. Lines
// end with a newline.

// appendCount appends what follows a counter's name.
func appendCount(line []byte, n uint64) []byte {
	return append(strconv.AppendUint(append(line, ':'), n, 10), "|c"...)
}

// appendGauge appends what follows a gauge's name. One below 0 would be taken for
// a change.
func appendGauge(line []byte, value float64) []byte {
	return append(strconv.AppendFloat(append(line, ':'), max(0, value), 'f', -1, 64), "|g"...)
}

// appendTime appends what follows the name of a time, which is one of a sample.
func appendTime(line []byte, took time.Duration, rate float64) []byte {
	line = append(strconv.AppendInt(append(line, ':'), took.Milliseconds(), 10), "|ms"...)
	if rate < 1 {
		line = strconv.AppendFloat(append(line, "|@"...), rate, 'g', 6, 64)
	}
	return line
}

// nameTags writes tags as a part of names. A dot would begin another part.
func nameTags(tags map[string]string) string {
	var b strings.Builder
	for _, name := range namesOf(tags) {
		b.WriteString(".__" + cleanTag(name) + "=" + strings.ReplaceAll(cleanTag(tags[name]), ".", "_"))
	}
	return b.String()
}

// dogTags writes tags as dogstatsd has them, at the end of a line.
func dogTags(tags map[string]string) string {
	var all []string
	for _, name := range namesOf(tags) {
		all = append(all, cleanTag(name)+":"+cleanTag(tags[name]))
	}
	if all == nil {
		return ""
	}
	return "|#" + strings.Join(all, ",")
}

// merged are all tags; of one name those of the metric's own.
func merged(tags, own map[string]string) map[string]string {
	all := maps.Clone(tags)
	if all == nil {
		all = make(map[string]string)
	}
	maps.Copy(all, own)
	return all
}

// namesOf returns the names of tags, in order, but for those of which a half is
// empty: they are left out.
func namesOf(tags map[string]string) []string {
	var names []string
	for _, name := range slices.Sorted(maps.Keys(tags)) {
		if name != "" && tags[name] != "" {
			names = append(names, name)
		}
	}
	return names
}

// cleanTag keeps what would end a tag out of it.
func cleanTag(text string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || strings.ContainsRune(":|,\x7f", r) {
			return '_'
		}
		return r
	}, text)
}

// tagging is how lines say the tags of all metrics.
type tagging struct {
	suffix, tags string            // after a name, and at the end of a line
	own          map[string]string // with mogrifiers, to which tags of the next line are added
}

// writer gathers lines and writes as many at once as the network takes.
type writer struct {
	tagging
	conn       net.Conn
	most       int // bytes at once
	mogrifiers []Mogrifier

	next    []byte // the line that is being made
	ready   []byte
	written []func() // for the lines that are ready
	err     error    // the first; nothing is written after it
}

func (s *Sender) writer() *writer {
	w := &writer{conn: s.conn, tagging: s.usual, most: segment, mogrifiers: s.options.Mogrifiers}
	if s.options.Network == UDP {
		w.most = datagram
	}
	return w
}

// room returns where to make the next line, after its name.
func (w *writer) room(name string) []byte {
	if len(w.mogrifiers) > 0 {
		var tags map[string]string
		name, tags = mogrify(w.mogrifiers, name)
		w.tags = dogTags(merged(w.own, tags))
	}
	return append(append(w.next[:0], name...), w.suffix...)
}

// line takes a line that was made, without its tags. written, unless it is nil,
// is called once the line was.
func (w *writer) line(line []byte, written func()) {
	line = append(line, w.tags...)
	w.next = line
	if len(w.ready) > 0 && len(w.ready)+len(line)+1 > w.most {
		w.flush()
	}
	w.ready = append(append(w.ready, line...), '\n')
	if written != nil {
		w.written = append(w.written, written)
	}
}

// flush writes the lines that are ready.
func (w *writer) flush() {
	if w.err == nil && len(w.ready) > 0 {
		if w.err = w.conn.SetWriteDeadline(time.Now().Add(patience)); w.err == nil {
			_, w.err = w.conn.Write(w.ready)
		}
		if w.err == nil {
			for _, written := range w.written {
				written()
			}
		}
	}
	w.ready, w.written = w.ready[:0], w.written[:0]
}
