package descriptors

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// File is a policy file: its text, and its name as errors show it.
type File struct {
	Name string
	Text []byte

	// Parse reads a Text that is not YAML. It returns the mapping that a
	// document of a file would have, without aliases, or an error, which may
	// be an *Error with a path. Nil: Text is YAML.
	//
	// Errors show the name and the path in place of a line. A program wrote the
	// policy, so a rule that others hide is no error: Envoy Gateway has a * in
	// the names of routes, which meet their rules as they are.
	Parse func(text []byte) (*yaml.Node, error)
}

// Options are what the files do not say themselves.
type Options struct {
	// Counting is that of domains which do not say.
	Counting algorithm.Counting

	// Region is part of the counter keys of limits that are not shared by all
	// regions. Empty: there are none, and all limits are shared.
	Region string

	// Lenient takes what envoyproxy/ratelimit takes, and means by it what that
	// does: only the first document of a file counts, and so does the last of
	// fields that are given twice; a field of another level, a rule that nothing
	// can reach and the name of no limit in replaces change nothing; a limit
	// without requests_per_unit denies everything. All these are warnings: see
	// [Rules.Warnings].
	Lenient bool

	// OneFileEach has each domain stand in one file only.
	OneFileEach bool

	// KeyPrefix begins every counter key. It must not have a brace, which says
	// where in a Redis Cluster a key lies.
	KeyPrefix string

	// Hiding puts hashes in the place of values: see [Rules.Hide]. Nil: counter
	// keys hold the values themselves.
	Hiding *Hiding
}

// Compile checks the files and makes rules of them. The order of the files
// matters only to domains that count as envoyproxy/ratelimit does and have
// patterns in several files. No file at all is no error.
//
// If anything is wrong, the error is an *ErrorList with all of it, and there
// are no rules.
func Compile(files []File, o Options) (*Rules, error) {
	c := compiler{o: o, faults: faults{lenient: o.Lenient}, domains: make(map[string]*draft)}
	for _, file := range files {
		for _, root := range readSource(file, &c.faults) {
			c.readPolicy(root)
		}
	}
	rules := c.build()
	rules.revision = revision(files)
	sortByPlace(c.faults.warnings, files)
	rules.warnings = c.faults.warnings
	if err := c.faults.err(files); err != nil {
		return nil, err
	}
	return rules, nil
}

// compiler gathers what the files say before it is put together.
type compiler struct {
	o       Options
	faults  faults
	domains map[string]*draft // by name
	order   []*draft          // as the files have them
	hinted  int               // names for which another one was looked for
}

// draft is a domain that may be spread over several documents.
type draft struct {
	domain    *Domain
	first     *value // where the domain is named first
	counting  *value // where it is said; nil: nowhere
	branches  []*branch
	replaces  []replacement
	documents int
}

// branch is a descriptor of a file with those below it.
type branch struct {
	at       *value
	entry    PathEntry
	rule     *Rule
	names    []string // of its limits, those with faults included
	children []*branch
}

// replacement is one item of a rule's replaces.
type replacement struct {
	at   *value
	by   *branch
	name string
}

// revision hashes names and texts.
func revision(files []File) string {
	hash := sha256.New()
	var length [24]byte
	for _, file := range files {
		hash.Write(appendLength(length[:0], len(file.Name)))
		hash.Write([]byte(file.Name))
		hash.Write(appendLength(length[:0], len(file.Text)))
		hash.Write(file.Text)
	}
	return hex.EncodeToString(hash.Sum(nil)[:6])
}

// draft returns the draft of a domain, a new one if none has the name.
func (c *compiler) draft(name string) *draft {
	d := c.domains[name]
	if d == nil {
		d = &draft{domain: &Domain{Name: name, Counting: c.o.Counting, region: c.o.Region, version: c.version(), prefix: c.o.KeyPrefix}}
		c.domains[name] = d
		c.order = append(c.order, d)
	}
	return d
}

// version is that of counter keys.
func (c *compiler) version() byte {
	if c.o.Hiding != nil {
		return hiddenVersion
	}
	return plainVersion
}

// build puts the domains together and numbers their limits.
func (c *compiler) build() *Rules {
	slices.SortFunc(c.order, func(a, b *draft) int { return compareNames(a.domain, b.domain) })
	r := &Rules{hiding: c.o.Hiding, byName: make(map[string]*Domain, len(c.order))}
	ids := make(map[string]int)
	for _, draft := range c.order {
		b := builder{domain: draft.domain, ids: ids, rules: r}
		b.build(draft)
		r.byName[draft.domain.Name] = draft.domain
		r.domains = append(r.domains, draft.domain)
	}
	c.checkReplaced()
	return r
}
