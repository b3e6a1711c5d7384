package descriptors

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	// MaxFileSize is the largest policy file, in bytes.
	MaxFileSize = 16 << 20

	// DefaultMaxSize is how many bytes all policy files of a directory may have
	// together. While they are loaded they take about 60 times as much memory,
	// and 250 times if somebody means them to.
	DefaultMaxSize = 4 << 20

	// maxExpansion is how many values aliases may add to those that a file
	// spells out: enough for tens of thousands of rules that share a limit,
	// too few for a file that doubles itself thirty times.
	maxExpansion = 100_000
)

// source is a policy file that is being read.
type source struct {
	file   string
	faults *faults

	// generated says that a program wrote it, which means all of it.
	generated bool

	// visits is how many more values may be read, less than 0 when reading
	// has ended, so that no file takes more time or memory than its size
	// warrants.
	visits int
}

// add records a fault at a place of the file.
func (s *source) add(node *yaml.Node, path, format string, args ...any) {
	s.faults.add(s.at(node, path, fmt.Sprintf(format, args...)))
}

// lapse records what is a fault, or a warning where the file is taken leniently.
func (s *source) lapse(node *yaml.Node, path, format string, args ...any) {
	s.faults.lapse(s.at(node, path, fmt.Sprintf(format, args...)))
}

func (s *source) at(node *yaml.Node, path, problem string) Error {
	e := Error{File: s.file, Path: path, Problem: problem}
	if node != nil {
		e.Line, e.Column = node.Line, node.Column
	}
	return e
}

// spend takes n values from what may be read. It reports false when there are
// not so many left, and once, at the value that asks, that this is a fault.
func (s *source) spend(n int, at *value) bool {
	if s.visits < 0 {
		return false
	}
	s.visits -= n
	if s.visits < 0 {
		at.errorf("the file's aliases expand to more than %d values", maxExpansion)
	}
	return s.visits >= 0
}

// readSource parses a file and returns the root of each of its documents.
// Empty documents are left out, but a file with nothing else is a fault: it is
// more likely half written than meant.
func readSource(file File, f *faults) []*value {
	src := &source{file: file.Name, faults: f, generated: file.Parse != nil, visits: len(file.Text) + maxExpansion}
	if file.Parse != nil {
		src.visits = math.MaxInt // without aliases nothing is read twice
		return readParsed(src, file)
	}
	text := bytes.TrimPrefix(file.Text, []byte("\ufeff"))
	switch {
	case len(file.Text) > MaxFileSize:
		src.add(nil, "", "the file has %d bytes; at most %d are allowed", len(file.Text), MaxFileSize)
		return nil
	case !checkText(text, src):
		return nil
	}
	var roots []*value
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	for {
		node, err := parse(decoder)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			f.add(syntaxError(file.Name, err))
			return roots
		}
		if f.lenient && len(roots) > 0 {
			src.lapse(node, "", "only the first document of a file counts; this one is not read")
			break
		}
		if root := node.Content[0]; root.Kind != yaml.ScalarNode || root.ShortTag() != nullTag {
			roots = append(roots, newRoot(src, root))
		}
	}
	if len(roots) == 0 {
		src.add(nil, "", "the file is empty; a policy has at least a domain")
	}
	return roots
}

// readParsed is readSource for a file that says how it is read.
func readParsed(src *source, file File) []*value {
	node, err := file.Parse(file.Text)
	if err == nil {
		return []*value{newRoot(src, node)}
	}
	if at, ok := errors.AsType[*Error](err); ok {
		src.add(nil, at.Path, "%s", at.Problem)
	} else {
		src.add(nil, "", "%v", err)
	}
	return nil
}

// checkText reports bytes that no policy holds, where they stand.
func checkText(text []byte, src *source) bool {
	for i, c := range text {
		if c == 0 {
			src.add(position(text, i), "", "the file is not text: it has a zero byte here")
			return false
		}
	}
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r == utf8.RuneError && size == 1 {
			src.add(position(text, i), "", "the file is not UTF-8: it has the byte %#02x here; in double quotes, \\x.. writes a character, and !!binary raw bytes", text[i])
			return false
		}
		i += size
	}
	return true
}

// position is where the byte i of the text stands.
func position(text []byte, i int) *yaml.Node {
	line := text[bytes.LastIndexByte(text[:i], '\n')+1 : i]
	return &yaml.Node{Line: 1 + bytes.Count(text[:i], []byte{'\n'}), Column: 1 + utf8.RuneCount(line)}
}

// parse returns the next document. A panic of the parser is an error like any
// other: no policy file may stop the process.
func parse(decoder *yaml.Decoder) (node *yaml.Node, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("yaml: the parser gave up: %v", p)
		}
	}()
	node = new(yaml.Node)
	if err := decoder.Decode(node); err != nil {
		return nil, err
	}
	if node.Kind != yaml.DocumentNode || len(node.Content) != 1 {
		return nil, errors.New("yaml: no document")
	}
	return node, nil
}

var yamlLine = regexp.MustCompile(`^line (\d+): `)

// syntaxError takes the line out of a message of the YAML parser.
func syntaxError(file string, err error) Error {
	message := strings.TrimPrefix(err.Error(), "yaml: ")
	e := Error{File: file, Line: 1}
	if match := yamlLine.FindStringSubmatch(message); match != nil {
		e.Line, _ = strconv.Atoi(match[1])
		message = message[len(match[0]):]
	}
	e.Problem = "the file is not YAML: " + message
	if strings.Contains(message, "cannot start any token") {
		e.Problem += "; a tab perhaps, where YAML is indented with spaces"
	}
	return e
}
