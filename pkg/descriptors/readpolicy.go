package descriptors

import (
	"unicode/utf8"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// defaults are what a document says for its limits that do not say otherwise.
type defaults struct {
	algorithm    string
	onStoreError algorithm.FailurePolicy
	priority     algorithm.Priority
	shared       bool // by all regions
}

// readPolicy reads a document into the draft of its domain.
func (c *compiler) readPolicy(root *value) {
	fields, ok := root.fields(&policyShape)
	if !ok {
		return
	}
	// Without a domain the descriptors are still read, for their faults.
	d := &draft{domain: new(Domain)}
	if name, ok := readDomain(root, fields["domain"]); ok {
		d = c.draft(name)
		d.place(fields["domain"], c.o.OneFileEach)
	}
	if at := fields["counting"]; at != nil {
		d.readCounting(at)
	}
	r := reader{draft: d, defaults: readDefaults(fields["defaults"])}
	r.overrides()
	if at := fields["descriptors"]; at != nil {
		d.branches = append(d.branches, r.descriptors(at, nil, r.defaults.priority)...)
	}
}

func readDomain(root, at *value) (string, bool) {
	if at == nil {
		root.missing("a policy needs a domain, the name that Envoy's configuration sends")
		return "", false
	}
	name, ok := at.text()
	switch {
	case !ok:
		return "", false
	case name == "":
		at.errorf("the domain must not be empty")
		return "", false
	case !utf8.ValidString(name):
		at.errorf("the domain must be UTF-8, as the protocol sends no other")
		return "", false
	}
	return name, true
}

// place notes where the domain is named, and whether it may be there.
func (d *draft) place(at *value, oneFileEach bool) {
	switch {
	case d.first == nil:
		d.first = at
	case oneFileEach && d.first.src != at.src:
		at.errorf("duplicate domain %s in config file: it stands already at %s, and domains that stand in several files are not merged", quote(d.domain.Name), d.first.place())
	}
}

// readCounting sets how the domain counts. Documents that say must agree.
func (d *draft) readCounting(at *value) {
	word, ok := at.word("a way of counting", countingWords)
	if !ok {
		return
	}
	counting := algorithm.Precise
	if word == "reference" {
		counting = algorithm.Reference
	}
	if d.counting != nil && d.domain.Counting != counting {
		at.errorf("domain %s is counted otherwise at %s; a domain has one way of counting", quote(d.domain.Name), d.counting.place())
		return
	}
	d.domain.Counting, d.counting = counting, at
}

func readDefaults(at *value) defaults {
	var d defaults
	if at == nil {
		return d
	}
	fields, ok := at.fields(&defaultsShape)
	if !ok {
		return d
	}
	if at := fields["algorithm"]; at != nil {
		d.algorithm, _ = at.word("an algorithm", algorithm.Names())
	}
	if at := fields["on_store_error"]; at != nil {
		d.onStoreError = readFailurePolicy(at)
	}
	d.priority = readPriority(fields["priority"], d.priority)
	d.shared = readRegion(fields["region"], d.shared)
	return d
}

func readFailurePolicy(at *value) algorithm.FailurePolicy {
	word, _ := at.word("a choice", failureWords)
	switch word {
	case "allow":
		return algorithm.FailAllow
	case "deny":
		return algorithm.FailDeny
	case "local":
		return algorithm.FailLocal
	}
	return algorithm.FailError
}

// readPriority reads a priority; absent is what is said further above.
func readPriority(at *value, above algorithm.Priority) algorithm.Priority {
	if at == nil {
		return above
	}
	word, _ := at.word("a priority", priorityWords)
	for _, p := range algorithm.Priorities {
		if p.String() == word {
			return p
		}
	}
	return above
}

// readRegion reads whether all regions share a counter; absent is what is said
// further above.
func readRegion(at *value, above bool) bool {
	if at == nil {
		return above
	}
	word, ok := at.word("a choice", regionWords)
	return word == "shared" || !ok && above
}

// overrides gives the overrides of a domain the defaults of its documents.
// Where these differ, deny goes before error before local before allow, what is
// more important before what is less, and one counter before one for each region.
func (r *reader) overrides() {
	d, said, first := r.draft.domain, r.defaults, r.draft.documents == 0
	if first || strictness(said.onStoreError) > strictness(d.overrideOnFailed) {
		d.overrideOnFailed = said.onStoreError
	}
	if first || said.priority == algorithm.PriorityCritical ||
		said.priority == algorithm.PriorityDefault && d.overridePriority == algorithm.PrioritySheddable {
		d.overridePriority = said.priority
	}
	d.overrideShared = d.overrideShared || said.shared
	r.draft.documents++
}

// strictness orders failure policies by which goes before others.
func strictness(p algorithm.FailurePolicy) int {
	return [...]int{algorithm.FailAllow: 0, algorithm.FailLocal: 1, algorithm.FailError: 2, algorithm.FailDeny: 3}[p]
}
