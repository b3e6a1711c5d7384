package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
)

// profileSeconds is how long a profile takes.
const profileSeconds = 4

// profile takes a processor profile of ratelimitd with each store while it is
// loaded, for `go tool pprof`.
func (b *bench) profile(ctx context.Context, all []*row) error {
	if err := os.MkdirAll(b.options.profiles, 0o750); err != nil {
		return err
	}
	for _, r := range all {
		if r.Name != rowMemory && r.Name != rowRedis && r.Name != rowOver {
			continue
		}
		path := filepath.Join(b.options.profiles, r.Name+".pprof")
		progress("profile %s", path)
		l := r.load(int(saturated(all, r.Server) * profileSeconds * 1.2))
		l.address = b.servers[r.Server].address
		var loading sync.WaitGroup
		var failed error
		loading.Go(func() { _, failed = drive(ctx, l) })
		err := b.fetchProfile(ctx, r.Server, path)
		loading.Wait()
		if err != nil || failed != nil {
			return fmt.Errorf("profile %s: %w", r.Name, cmp.Or(err, failed))
		}
	}
	return nil
}

func (b *bench) fetchProfile(ctx context.Context, server, path string) error {
	url := fmt.Sprintf("http://%s/debug/pprof/profile?seconds=%d", b.admin[server], profileSeconds)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, response.Body)
	if closed := file.Close(); err == nil {
		err = closed
	}
	return err
}
