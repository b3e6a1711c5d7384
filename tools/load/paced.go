package main

import "context"

// pair is a server at half of its saturated rate, and the frame floor at the
// same rate.
type pair struct {
	Server  string   `json:"server"`
	Samples []sample `json:"samples"`
	Floor   []sample `json:"frame_floor"`
}

// curve is what a request costs a server at several rates.
type curve struct {
	Server string     `json:"server"`
	Points [][]sample `json:"points"` // at each rate, those of all rounds
}

const (
	pairSeconds  = 1.2 // that each load of a pair takes
	pointSeconds = .7  // that each load of a curve takes
	pointRounds  = 3   // how often each point of a curve is measured
)

// fractions of a server's saturated rate at which its curve has points.
func fractions() []float64 { return []float64{.02, .05, .1, .2, .35, .5, .7, .9} }

// measurePairs measures servers at half of the rate that they were found to
// bear.
func (b *bench) measurePairs(ctx context.Context, all []*row) ([]*pair, error) {
	pairs := []*pair{{Server: memoryServer}, {Server: redisServer}}
	for round := range b.options.rounds {
		progress("half of the saturated rate, %d of %d", round+1, b.options.rounds)
		for _, p := range pairs {
			rate := saturated(all, p.Server) / 2
			s, err := b.paced(ctx, p.Server, rate, pairSeconds)
			if err != nil {
				return nil, err
			}
			floor, err := b.paced(ctx, frameFloorServer, rate, pairSeconds)
			if err != nil {
				return nil, err
			}
			p.Samples, p.Floor = append(p.Samples, s), append(p.Floor, floor)
		}
	}
	return pairs, nil
}

// measureCurves measures servers at several rates.
func (b *bench) measureCurves(ctx context.Context, all []*row) ([]*curve, error) {
	curves := []*curve{{Server: frameFloorServer}, {Server: memoryServer}, {Server: redisServer}, {Server: apartServer}}
	for _, c := range curves {
		c.Points = make([][]sample, len(fractions()))
	}
	for round := range min(pointRounds, b.options.rounds) {
		progress("offered load, %d of %d", round+1, min(pointRounds, b.options.rounds))
		for i, fraction := range fractions() {
			for _, c := range curves {
				s, err := b.paced(ctx, c.Server, saturated(all, c.Server)*fraction, pointSeconds)
				if err != nil {
					return nil, err
				}
				c.Points[i] = append(c.Points[i], s)
			}
		}
	}
	return curves, nil
}

// paced measures a server at a rate, with the load of the first rows.
func (b *bench) paced(ctx context.Context, server string, rate, seconds float64) (sample, error) {
	return b.measure(ctx, server, load{
		requests: encodeRequests(ample, manyKeys, 1), count: max(500, int(rate*seconds)), connections: connections, rate: rate,
	})
}

// saturated is the rate that a server has borne, of the first row that loads
// it.
func saturated(all []*row, server string) float64 {
	for _, r := range all {
		if r.Server == server {
			return median(r.Samples, func(s sample) float64 { return s.Rate })
		}
	}
	return 0
}
