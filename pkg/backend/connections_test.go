package backend

import (
	"context"
	"testing"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
)

// Every connection is counted when it is opened, and once when it is closed, by
// whom ever.
func TestConnectionsAreCounted(t *testing.T) {
	for _, shape := range []string{"redis", "tls", "sentinel", "cluster"} {
		t.Run(shape, func(t *testing.T) {
			t.Parallel()
			s := openShape(t, shape)
			r := s.decider.(*Redis)
			ask := algorithm.Ask{Key: key(t, "a", "k"), Limit: limitOf(t, "fixed_window", 10, aLongTime), Hits: 1}
			if got := show(s.decide(t, ask)); got != "ok:9" {
				t.Fatalf("%s, want ok:9", got)
			}
			before := r.Connections()
			if before.Opened == 0 || before.Opened < before.Closed {
				t.Errorf("%+v after a decision", before)
			}
			for _, server := range s.servers {
				server.Do(t, "client", "kill", "type", "normal")
			}
			await(t, "what was cut off is closed, and another is opened", func() bool {
				r.Decide(context.Background(), []algorithm.Ask{ask}, make([]algorithm.Decision, 1)) // it may be lost
				now := r.Connections()
				return now.Closed > before.Closed && now.Opened > before.Opened
			})
			if err := r.Close(); err != nil {
				t.Fatal(err)
			}
			if now := r.Connections(); now.Opened != now.Closed {
				t.Errorf("%+v after the store is closed", now)
			}
		})
	}
}
