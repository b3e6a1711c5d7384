package descriptors

import (
	"runtime"
	"testing"
	"time"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

func TestOverride(t *testing.T) {
	domain := compile(t, "domain: t\ndefaults: {on_store_error: deny}").Domains()[0]
	const century = algorithm.MaxWindow
	for _, row := range []struct {
		override   Override
		window     time.Duration
		multiplier uint32
	}{
		{Override{5, 1, 0}, time.Second, 1},
		{Override{5, 1, 1}, time.Second, 1},
		{Override{5, 2, 10}, 10 * time.Minute, 10},
		{Override{0, 3, 1}, time.Hour, 1},
		{Override{1<<32 - 1, 4, 1}, 24 * time.Hour, 1},
		{Override{5, 5, 1}, 30 * 24 * time.Hour, 1},
		{Override{5, 6, 100}, century, 100},
		{Override{5, 6, 101}, century, 100},
		{Override{5, 7, 1}, 7 * 24 * time.Hour, 1},
		{Override{5, 1, 1<<32 - 1}, century, 3_153_600_000},
		{Override{5, 6, 1<<32 - 1}, century, 100},
		{Override{5, 7, 1<<32 - 1}, 5214 * 7 * 24 * time.Hour, 5214},
	} {
		l, ok := domain.Override(row.override)
		if !ok {
			t.Errorf("%v is ignored", row.override)
			continue
		}
		if l.Limit.Window != row.window || l.Multiplier != row.multiplier || l.Unit != row.override.Unit {
			t.Errorf("%v: got %v as %d × unit %d, want %v as %d", row.override, l.Limit.Window, l.Multiplier, l.Unit, row.window, row.multiplier)
		}
		if l.Limit.Requests != int64(row.override.Requests) || l.Limit.Algorithm != algorithm.FixedWindow {
			t.Errorf("%v: got %d, %s", row.override, l.Limit.Requests, l.Limit.Algorithm.Name)
		}
		if l.Shadow || l.Quota || l.Name != "" || l.Index != -1 || l.Rule == nil || l.ID != "t override" || l.OnStoreError != algorithm.FailDeny {
			t.Errorf("%v: got %+v", row.override, l)
		}
	}
	for _, unit := range []int32{0, -1, 8, 99, 1<<31 - 1, -1 << 31} {
		if _, ok := domain.Override(Override{5, unit, 1}); ok {
			t.Errorf("unit %d is not ignored", unit)
		}
	}
}

func TestOverridesLeaveNothingBehind(t *testing.T) {
	domain := compile(t, "domain: t").Domains()[0]
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range uint32(100_000) {
		if _, ok := domain.Override(Override{i, 1, i}); !ok {
			t.Fatal(i)
		}
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int64(after.HeapAlloc) - int64(before.HeapAlloc); grown > 1<<20 {
		t.Errorf("100,000 overrides leave %d bytes behind", grown)
	}
	runtime.KeepAlive(domain)
}

func TestPriorityOfOverrides(t *testing.T) {
	const critical, sheddable = "domain: t\ndefaults: {priority: critical}", "domain: t\ndefaults: {priority: sheddable}"
	for _, row := range []struct {
		documents string
		want      algorithm.Priority
	}{
		{"domain: t", algorithm.PriorityDefault},
		{sheddable, algorithm.PrioritySheddable},
		{sheddable + "\n---\ndomain: t", algorithm.PriorityDefault},
		{"domain: t\n---\n" + sheddable, algorithm.PriorityDefault},
		{critical + "\n---\n" + sheddable, algorithm.PriorityCritical},
		{sheddable + "\n---\n" + critical, algorithm.PriorityCritical},
		{critical + "\n---\ndomain: t", algorithm.PriorityCritical},
	} {
		domain := compile(t, row.documents).Domains()[0]
		if l, _ := domain.Override(Override{1, 1, 1}); l.Priority != row.want {
			t.Errorf("%q: got %v, want %v", row.documents, l.Priority, row.want)
		}
	}
}

func TestDefaultsOfOverrides(t *testing.T) {
	for _, row := range []struct {
		documents string
		want      algorithm.FailurePolicy
	}{
		{"domain: t", algorithm.FailError},
		{"domain: t\ndefaults: {on_store_error: allow}", algorithm.FailAllow},
		{"domain: t\ndefaults: {on_store_error: allow}\n---\ndomain: t", algorithm.FailError},
		{"domain: t\n---\ndomain: t\ndefaults: {on_store_error: allow}", algorithm.FailError},
		{"domain: t\ndefaults: {on_store_error: deny}\n---\ndomain: t\ndefaults: {on_store_error: allow}", algorithm.FailDeny},
		{"domain: t\ndefaults: {on_store_error: allow}\n---\ndomain: t\ndefaults: {on_store_error: local}", algorithm.FailLocal},
		{"domain: t\ndefaults: {on_store_error: local}\n---\ndomain: t\ndefaults: {on_store_error: error}", algorithm.FailError},
	} {
		domain := compile(t, row.documents).Domains()[0]
		if l, _ := domain.Override(Override{1, 1, 1}); l.OnStoreError != row.want {
			t.Errorf("%q: got %d, want %d", row.documents, l.OnStoreError, row.want)
		}
	}
}
