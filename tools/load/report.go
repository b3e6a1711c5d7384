package main

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// report tells of a run, in tables that can be read as they are and as
// Markdown.
func (r *run) report() string {
	parts := []string{r.where(), r.costs(), r.memory(), r.halfRates(), r.sizes(), r.bounds()}
	return strings.Join(parts, "\n")
}

// where says on which machine, and how, it was measured.
func (r *run) where() string {
	m := r.Machine
	loads := func(l []float64) string {
		if len(l) == 0 {
			return "?"
		}
		return fmt.Sprintf("%.1f", l[0])
	}
	return table([]string{"", "of this run"}, [][]string{
		{"when", fmt.Sprintf("%s, for %.0f s", r.Began.Format("2 January 2006 15:04 UTC"), r.Seconds)},
		{"processor", fmt.Sprintf("%s, %d cores", m.Processor, m.Cores)},
		{"load average", fmt.Sprintf("%s before, %s after", loads(m.LoadBefore), loads(m.LoadAfter))},
		{
			"used by others", fmt.Sprintf("%.0f %% of all cores during the first loads, %.0f %% at half rate, %.0f %% along the picture",
				100*m.Others.Rows, 100*m.Others.Pairs, 100*m.Others.Curves),
		},
		{"kernel", "Linux " + m.Kernel},
		{"Go, Redis", fmt.Sprintf("%s, %s", m.Go, m.Redis)},
		{"server", m.Ratelimitd},
		{"measured", fmt.Sprintf("rounds: %d, of %d requests a load; limits: %s", r.Rounds, r.Requests, r.Algorithm)},
	})
}

// costs tells the processor's time and the latency of a request.
func (r *run) costs() string {
	var lines [][]string
	for _, row := range r.Rows {
		of := func(figure func(sample) float64, format string) string {
			return fmt.Sprintf(format, median(row.Samples, figure))
		}
		redis := "–"
		if row.Server == redisServer || row.Server == apartServer {
			redis = of(redisTime, "%.2f")
		}
		lines = append(lines, []string{
			row.Title, of(serverTime, "%.2f"), redis, fmt.Sprintf("%.2f", ratio(row, togetherTime, r.floor(row), serverTime)),
			of(func(s sample) float64 { return s.Rate }, "%.0f"),
			of(p50, "%.0f"), of(p99, "%.0f"), of(func(s sample) float64 { return s.P999 }, "%.0f"),
			of(func(s sample) float64 { return s.Generator }, "%.2f"), failures(row.Samples),
		})
	}
	return table([]string{"load", "server, µs", "Redis, µs", "÷ floor", "requests/s", "p50, µs", "p99, µs", "p99.9, µs", "generator, µs", "failed"}, lines)
}

// failures is how many calls were not answered OK or OVER_LIMIT.
func failures(samples []sample) string {
	n := 0
	for _, s := range samples {
		n += s.Failed
	}
	return fmt.Sprint(n)
}

// memory tells what servers hold after their load.
func (r *run) memory() string {
	var lines [][]string
	seen := map[string]bool{}
	for _, row := range r.Rows {
		if seen[row.Server] {
			continue
		}
		seen[row.Server] = true
		lines = append(lines, []string{row.Server, fmt.Sprintf("%.0f", median(row.Samples, func(s sample) float64 { return s.ServerMiB }))})
	}
	lines = append(lines, []string{"redis-server", fmt.Sprintf("%.0f", median(r.row(rowRedis).Samples, func(s sample) float64 { return s.RedisMiB }))})
	return table([]string{"process, with 10,000 keys", "resident, MiB"}, lines)
}

// halfRates tells of latency at half of the saturated rate.
func (r *run) halfRates() string {
	var lines [][]string
	for _, p := range r.Pairs {
		for _, side := range []struct {
			name    string
			samples []sample
		}{{p.Server, p.Samples}, {"frame floor, same rate", p.Floor}} {
			of := func(figure func(sample) float64) string { return fmt.Sprintf("%.0f", median(side.samples, figure)) }
			lines = append(lines, []string{
				side.name, of(func(s sample) float64 { return s.Offered }), fmt.Sprintf("%.2f", median(side.samples, togetherTime)),
				of(p50), of(p99), of(func(s sample) float64 { return s.P999 }), failures(side.samples),
			})
		}
	}
	return table([]string{"half of the saturated rate", "offered/s", "CPU, µs", "p50, µs", "p99, µs", "p99.9, µs", "failed"}, lines)
}

// sizes tells what counters take.
func (r *run) sizes() string {
	var lines [][]string
	for _, k := range r.KeySizes {
		memory := "–"
		if k.Memory > 0 {
			memory = fmt.Sprintf("%.0f", k.Memory-k.Name)
		}
		lines = append(lines, []string{k.Algorithm, fmt.Sprintf("%.0f", k.Name), memory, fmt.Sprintf("%.0f", k.Redis), fmt.Sprintf("%.0f", k.Redis-k.Name)})
	}
	return table([]string{fmt.Sprintf("a counter of %d, in bytes", r.Keys), "name", "memory store, besides", "Redis, in all", "Redis, besides"}, lines)
}

// bounds tells which targets are reached.
func (r *run) bounds() string {
	var lines [][]string
	for _, t := range r.targets() {
		lines = append(lines, []string{t.work, t.bound, t.got, t.reached()})
	}
	return table([]string{"work", "at most", "measured", ""}, lines)
}

// table lays out a table. All columns but the first are aligned to the right
// where they hold figures.
func table(head []string, lines [][]string) string {
	widths := make([]int, len(head))
	for _, line := range append([][]string{head}, lines...) {
		for i, cell := range line {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	var b strings.Builder
	write := func(line []string) {
		for i, cell := range line {
			fill := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if numeric(lines, i) {
				cell = fill + cell
			} else {
				cell += fill
			}
			b.WriteString("| " + cell + " ")
		}
		b.WriteString("|\n")
	}
	write(head)
	for i, w := range widths {
		b.WriteString("| ")
		if numeric(lines, i) {
			b.WriteString(strings.Repeat("-", max(2, w-1)) + ": ")
		} else {
			b.WriteString(strings.Repeat("-", max(3, w)) + " ")
		}
	}
	b.WriteString("|\n")
	for _, line := range lines {
		write(line)
	}
	return b.String()
}

// numeric says whether a column holds figures only.
func numeric(lines [][]string, column int) bool {
	for _, line := range lines {
		if strings.Trim(line[column], "0123456789.–-+") != "" {
			return false
		}
	}
	return true
}
