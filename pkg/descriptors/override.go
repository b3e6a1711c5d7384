package descriptors

import (
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// Override is a limit that a request brings along for one of its descriptors.
type Override struct {
	Requests   uint32
	Unit       int32  // as in Limit
	Multiplier uint32 // 0 is 1
}

// Override returns the limit that the request asks for: a fixed window that
// belongs to no rule, at most 100 years long. It reports false for a unit that
// has no length; such an override is ignored. Nothing is kept of it, however
// many different ones clients send.
func (d *Domain) Override(o Override) (*Limit, bool) {
	unit := unitByNumber(o.Unit)
	if unit == nil {
		return nil, false
	}
	multiplier := min(max(o.Multiplier, 1), uint32(algorithm.MaxWindow/unit.length))
	window := time.Duration(multiplier) * unit.length
	fixed, err := algorithm.NewLimit(algorithm.Spec{
		Algorithm: algorithm.FixedWindow.Name,
		Requests:  uint64(o.Requests),
		Window:    window,
	})
	if err != nil {
		return nil, false // a fixed window takes every uint32, so this does not happen
	}
	region := d.region
	if d.overrideShared {
		region = ""
	}
	return &Limit{
		Index:        -1,
		Limit:        fixed,
		Unit:         o.Unit,
		Multiplier:   multiplier,
		OnStoreError: d.overrideOnFailed,
		Priority:     d.overridePriority,
		Rule:         d.override,
		Region:       region,
		ID:           d.overrideID,
		shared:       d.overrideShared,
		suffix:       overrideSuffix(window.Microseconds(), region),
		replaced:     -1,
	}, true
}
