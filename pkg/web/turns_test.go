package web

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// However many ask for pages at once, few are made at a time; the others come
// after them, or are refused when that takes long.
func TestPagesAreMadeInTurn(t *testing.T) {
	for takes, served := range map[time.Duration]int32{time.Second: 20, 4 * time.Second: 8} {
		synctest.Test(t, func(t *testing.T) {
			var making, most, ok, refused atomic.Int32
			page := inTurn(make(chan struct{}, maxMaking), turnWait, func(http.ResponseWriter, *http.Request) {
				most.Store(max(most.Load(), making.Add(1)))
				time.Sleep(takes)
				making.Add(-1)
			})
			var asking sync.WaitGroup
			for range 20 {
				asking.Go(func() {
					w := httptest.NewRecorder()
					if page.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/rules", http.NoBody)); w.Code == http.StatusOK {
						ok.Add(1)
					} else if w.Code == http.StatusServiceUnavailable {
						refused.Add(1)
					}
				})
			}
			asking.Wait()
			if most.Load() > maxMaking || ok.Load() != served || refused.Load() != 20-served {
				t.Errorf("pages of %v: %d at a time, %d made, %d refused", takes, most.Load(), ok.Load(), refused.Load())
			}
		})
	}
}
