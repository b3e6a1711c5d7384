package descriptors

import "strings"

// FullKey is the name of a limit as envoyproxy/ratelimit writes it: the domain,
// then keys and values as the policy has them, with dots between.
func (l *Limit) FullKey() string {
	var b strings.Builder
	l.Rule.writeFullKey(&b)
	b.WriteString(l.Tail())
	return b.String()
}

// FullKey is that of a rule, with or without a limit.
func (r *Rule) FullKey() string {
	var b strings.Builder
	r.writeFullKey(&b)
	return b.String()
}

func (r *Rule) writeFullKey(b *strings.Builder) {
	b.WriteString(r.Domain.Name)
	for _, e := range r.Path {
		b.WriteByte('.')
		b.WriteString(e.Key)
		if e.Value != "" {
			b.WriteByte('_')
			b.WriteString(e.Value)
		}
	}
}

// Tail tells the limits of one rule apart at the end of such a name, where there
// are several: by the limit's name, or else its window.
func (l *Limit) Tail() string {
	switch {
	case len(l.Rule.Limits) < 2:
		return ""
	case l.Name != "":
		return "." + l.Name
	}
	return "." + l.Limit.Algorithm.Name + "_" + l.Limit.Window.String()
}
