package descriptors

import (
	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"google.golang.org/protobuf/types/known/structpb"
)

// Entry is one key and value of a request's descriptor. Both are raw bytes
// that belong to the caller; they need not be UTF-8.
type Entry struct{ Key, Value []byte }

// Rules is everything a set of policy files says. It is immutable and safe for
// concurrent use. The zero value knows no domain.
type Rules struct {
	byName   map[string]*Domain
	domains  []*Domain
	limits   []*Limit
	revision string
	warnings []*Error
	hiding   *Hiding // nil: values stand in counter keys as they are
}

// Domain returns the domain of that name, nil if no file has it.
func (r *Rules) Domain(name []byte) *Domain { return r.byName[string(name)] }

// Domains returns every domain, sorted by name. The caller must not change it.
func (r *Rules) Domains() []*Domain { return r.domains }

// Limits returns every limit: Limits()[l.Index] == l. The caller must not
// change it.
func (r *Rules) Limits() []*Limit { return r.limits }

// Revision is a short hash of the names and texts of the files. Equal files
// have equal revisions.
func (r *Rules) Revision() string { return r.revision }

// Warnings are what was taken because [Options].Lenient is set. The caller must
// not change it.
func (r *Rules) Warnings() []*Error { return r.warnings }

// Domain is a name space of rules. It is immutable.
type Domain struct {
	Name     string
	Counting algorithm.Counting

	rules []*Rule
	root  level
	head  []byte // Name as a netstring: how every counter key begins

	prefix  string // of counter keys
	version byte   // of counter keys

	region string // whose counters are not shared; empty: there are no regions

	// What every override of a request has.
	override         *Rule
	overrideID       string
	overrideOnFailed algorithm.FailurePolicy
	overridePriority algorithm.Priority
	overrideShared   bool
}

// Rules returns the domain's rules in the order of the files, a parent before
// its children. The caller must not change it.
func (d *Domain) Rules() []*Rule { return d.rules }

// Rule is what a policy file says of one descriptor. It is immutable.
type Rule struct {
	Domain *Domain

	// Path leads from the domain to the descriptor. It is as long as the
	// entries that the rule matches, and empty for an override.
	Path []PathEntry

	// Limits apply together. None: the rule is known and limits nothing.
	Limits []*Limit

	// Unlimited rules say so in the answer; they have no limits.
	Unlimited bool

	// DetailedMetric asks for the values of all entries in the name of the
	// rule's metrics.
	DetailedMetric bool

	// Name is that of the rule's first limit, also of an unlimited one.
	Name string

	// Replaces names limits that do not apply to a request which this rule
	// matches: see [Replaced].
	Replaces []string

	// Metadata goes with the answer; nil is none. Nobody may change it.
	Metadata *structpb.Struct

	// File and Line say where the rule stands. Line is 0 in a policy that did
	// not come as text.
	File string
	Line int

	replaces []int // Replaces as numbers
}

// PathEntry is one level of a rule's path, as written.
type PathEntry struct {
	Key   string
	Value string // a text or a pattern; empty: any value
	Share bool   // all values that the pattern matches share one counter

	// ValueToMetric asks for the request's value in the name of metrics, where
	// it can be another than Value and does not share a counter.
	ValueToMetric bool

	shared []byte // Value, where Share is set
}

// Limit is one limit of a rule. It is immutable.
type Limit struct {
	// Index is the position in [Rules.Limits], -1 for an override.
	Index int
	Limit *algorithm.Limit

	// Unit and Multiplier are the window as the protocol shows it: SECOND is
	// 1, MINUTE 2, HOUR 3, DAY 4, MONTH 5, YEAR 6, WEEK 7. Both are 0 for a
	// window that is no whole number of seconds.
	Unit       int32
	Multiplier uint32

	// Name is printable ASCII without " and \, so that it can stand in a
	// header. Empty: none.
	Name string

	// Shadow limits never deny. Of a request's Quota limits one that fits is
	// enough.
	Shadow, Quota bool

	OnStoreError algorithm.FailurePolicy
	Priority     algorithm.Priority
	Rule         *Rule

	// Region is whose counters these are; empty: those of all regions.
	Region string

	// ID names the limit to people: domain/key=value/key, then the limit's
	// name or window where the rule has several. It is unique within its
	// Rules, printable, and at most 200 bytes long; all overrides of a domain
	// share one.
	ID string

	shared   bool // region: shared
	suffix   [suffixLength]byte
	replaced int // number of Name among those that some rule replaces; -1: none does
}
