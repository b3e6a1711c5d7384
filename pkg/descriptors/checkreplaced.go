package descriptors

import (
	"slices"

	"github.com/ratelimitd/ratelimitd/internal/spelling"
)

// names are the names that the limits of a domain have.
type names struct {
	known  map[string]bool // those of limits with faults included
	limits map[string][]*Limit
}

// add gathers the names of all limits of the branches.
func (n *names) add(branches []*branch) {
	for _, b := range branches {
		for _, name := range b.names {
			n.known[name] = true
		}
		for _, l := range b.rule.Limits {
			n.limits[l.Name] = append(n.limits[l.Name], l)
		}
		n.add(b.children)
	}
}

// checkReplaced reports names in replaces that no limit of the domain has, and
// numbers those that one has.
func (c *compiler) checkReplaced() {
	all := make([]names, len(c.order))
	for i, d := range c.order {
		all[i] = names{make(map[string]bool), make(map[string][]*Limit)}
		all[i].add(d.branches)
	}
	for i, d := range c.order {
		numbers := make(map[string]int)
		for _, item := range d.replaces {
			switch {
			case slices.Contains(item.by.names, item.name):
				item.at.errorf("a rule cannot replace itself: %s is its own name", quote(item.name))
			case !all[i].known[item.name]:
				item.at.lapse("%s", c.missing(item.name, i, all))
			default:
				item.by.rule.replaces = append(item.by.rule.replaces, number(item.name, numbers, all[i].limits))
			}
		}
	}
}

// number returns the number of a name, a new one at its first use.
func number(name string, numbers map[string]int, limits map[string][]*Limit) int {
	n, known := numbers[name]
	if !known {
		n = len(numbers)
		numbers[name] = n
		for _, l := range limits[name] {
			l.replaced = n
		}
	}
	return n
}

// missing says why a name that domain i replaces does not count.
func (c *compiler) missing(name string, i int, all []names) string {
	text := "no limit of domain " + quote(c.order[i].domain.Name) + " has the name " + quote(name)
	for j := range all {
		if all[j].known[name] {
			return text + "; one of domain " + quote(c.order[j].domain.Name) + " has, but a request has one domain"
		}
	}
	const many = 1000 // names to compare with
	const hints = 20  // each takes a comparison with all of them
	if len(all[i].known) > many || c.hinted == hints || c.faults.full() {
		return text
	}
	c.hinted++
	candidates := make([]string, 0, len(all[i].known))
	for known := range all[i].known {
		candidates = append(candidates, known)
	}
	slices.Sort(candidates)
	if near := spelling.Nearest(name, candidates); near != "" {
		text += "; did you mean " + quote(near) + "?"
	}
	return text
}
