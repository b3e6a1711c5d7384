package backend

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// measures are what a store in Redis, be it one or two, or in memcached is measured
// by.
type measures struct {
	duration prometheus.Observer
	failures failures
	undos    undos
}

func newMeasures(reg prometheus.Registerer, store, deniedBy string) measures {
	return measures{newDuration(reg, store), newFailures(reg, store), newUndos(reg, deniedBy)}
}

// report counts and logs the requests that were not decided, but for those whose
// callers did not want to know.
func (m *measures) report(where places, asks []algorithm.Ask, out []algorithm.Decision) {
	for from, to := range groups(asks) {
		for i := from; i < to; i++ {
			if err := out[i].Err; err != nil && !errors.Is(err, context.Canceled) {
				m.failures.add(err, 1)
				where.placeOf(&asks[i]).in.trouble().Warn("the store did not decide a request", "reason", err)
				break
			}
		}
	}
}

// undos count charges that are given back since their request was denied.
type undos struct{ undone, failed prometheus.Counter }

// newUndos returns what counts those of requests that somebody denied: another
// slot of the Cluster or the other of two Redis (slot), another counter in
// memcached (counter), or [Local] (local).
func newUndos(reg prometheus.Registerer, deniedBy string) undos {
	counter := func(name, help string) prometheus.Counter {
		return promauto.With(reg).NewCounter(prometheus.CounterOpts{Name: name, Help: help, ConstLabels: prometheus.Labels{"denied_by": deniedBy}})
	}
	return undos{
		undone: counter("ratelimitd_store_undone_total", "Charges given back because the same request was denied, by another hash slot of the Cluster, by the other of two Redis, by another counter in memcached, or locally."),
		failed: counter("ratelimitd_store_undo_failed_total", "Charges of requests that were denied which could not be given back, or not surely."),
	}
}

// count counts what became of charges that were to be given back.
func (u *undos) count(back []algorithm.Decision) {
	for i := range back {
		if back[i].Outcome == algorithm.Allowed {
			u.undone.Inc()
		} else {
			u.failed.Inc()
		}
	}
}
