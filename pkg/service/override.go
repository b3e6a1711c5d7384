package service

import (
	"sync/atomic"

	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// overrides keeps the limits that requests brought last, since most bring one
// of a few, and making one is slow. However many different ones clients send,
// it does not grow. It is safe for concurrent use.
type overrides [256]atomic.Pointer[broughtLimit]

// broughtLimit is a limit that a request brought. It is immutable.
type broughtLimit struct {
	domain   *descriptors.Domain
	override descriptors.Override
	view     *view // nil: the override is to be ignored
}

// overrideView returns the view of the limit that a request brings, nil if it
// is to be ignored.
func (t *table) overrideView(d *descriptors.Domain, o descriptors.Override) *view {
	hash := (o.Requests*31+uint32(o.Unit))*31 + o.Multiplier
	place := &t.overrides[hash*0x9e3779b1>>24]
	if kept := place.Load(); kept != nil && kept.domain == d && kept.override == o {
		return kept.view
	}
	made := &broughtLimit{domain: d, override: o}
	if l, ok := d.Override(o); ok {
		v := t.view(l, d.Counting, &t.domains[d].overrides)
		made.view = &v
	}
	place.Store(made)
	return made.view
}
