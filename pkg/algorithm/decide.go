package algorithm

// Decide judges the asks of one request against the states of their keys and
// charges them, as their counting says. The states are in the order of the
// asks; asks with the same key share a state. out receives a decision for each
// ask. Callers serialise access to the states.
//
// By Precise counting a request passes if every enforced ask fits, and, where
// there are quota asks, at least one of those fits. If it passes, the asks that
// fit are charged; if not, nothing is, and those that would have fitted are
// shown as they stand. Asks with the same key are judged in order, each on what
// the ones before it left.
//
// Charged whatever becomes of the request are asks that stand alone: shadow
// asks, hits given back, forced charges, limits with overdraw, and all asks
// counted by Reference. By OnlyOver counting each enforced ask is needed, quotas
// too; if one does not fit, those that do not are charged, as Reference would.
func Decide(now int64, asks []Ask, states []*State, out []Decision) {
	if len(asks) == 1 && !asks[0].Withheld { // nothing else can veto it
		asks[0].Limit.Algorithm.repair(asks[0].Limit, states[0], now)
		out[0] = asks[0].decide(states[0], now)
		return
	}
	var room [8]State
	saved := append(room[:0], make([]State, len(asks))...)
	judge(now, asks, states, out, saved)
	if !passes(asks, out) {
		settle(now, asks, states, out, saved)
	}
}

// judge decides each ask as if its request passed, and keeps in saved what the
// states were. An ask without a state was judged elsewhere: out has its decision.
func judge(now int64, asks []Ask, states []*State, out []Decision, saved []State) {
	for i := range asks {
		if l := asks[i].Limit; states[i] != nil {
			l.Algorithm.repair(l, states[i], now)
			saved[i] = *states[i]
		}
	}
	for i := range asks {
		if states[i] != nil {
			out[i] = asks[i].decide(states[i], now)
		}
	}
}

// settle decides what is left of a request that does not pass, after judge: the
// asks that stand alone, and how the keys of the others stand.
func settle(now int64, asks []Ask, states []*State, out []Decision, saved []State) {
	for i := range asks {
		if states[i] != nil {
			*states[i] = saved[i]
		}
	}
	for i := range asks {
		switch a := &asks[i]; {
		case states[i] == nil:
		case a.alone():
			out[i] = a.decide(states[i], now)
		case a.isCharged(&out[i]):
			out[i] = a.decide(states[i], now).as(out[i])
		}
	}
	for i := range asks {
		if a := &asks[i]; states[i] != nil && !a.alone() && !a.isCharged(&out[i]) {
			out[i] = a.asItStands(states[i], now, out[i])
		}
	}
}

// passes reports whether a request is to be charged, by the decisions on its
// asks.
func passes(asks []Ask, decisions []Decision) bool {
	quotas, fitting := 0, 0
	for i := range asks {
		switch a := &asks[i]; {
		case a.Withheld:
			return false
		case a.OneOfQuotas():
			quotas++
			if decisions[i].Outcome == Allowed {
				fitting++
			}
		case a.Vetoes() && decisions[i].Outcome != Allowed:
			return false
		}
	}
	return quotas == 0 || fitting > 0
}

// Vetoes reports whether the ask's request is charged only if the ask fits.
func (a *Ask) Vetoes() bool { return (!a.Quota || a.Counting == OnlyOver) && a.hasSay() }

// OneOfQuotas reports whether the ask is one of those of which one must fit for
// their request to be charged.
func (a *Ask) OneOfQuotas() bool { return a.Quota && a.Counting != OnlyOver && a.hasSay() }

func (a *Ask) hasSay() bool { return !a.Shadow && a.Mode == Charge && a.Counting != Reference }

// alone reports whether the ask is charged whatever becomes of its request.
func (a *Ask) alone() bool {
	return !a.hasSay() || a.Limit.Overdraw
}

// chargesOver reports whether the ask is charged when its request does not pass
// and it does not fit.
func (a *Ask) chargesOver() bool { return a.Counting == OnlyOver && !a.alone() && a.how() == spend }

// isCharged reports whether the ask is charged, by its decision, though its
// request does not pass.
func (a *Ask) isCharged(d *Decision) bool { return a.chargesOver() && d.Outcome == Denied }

// decide judges one ask by itself and charges the state.
func (a *Ask) decide(s *State, now int64) Decision {
	return a.forced(a.Limit.Algorithm.decide(a.Limit, s, now, a.hits(), a.how()))
}

// forced lets what was forced have fitted.
func (a *Ask) forced(d Decision) Decision {
	if a.Mode == Forced {
		d.Outcome, d.Never, d.RetryAfter = Allowed, false, 0
	}
	return d
}

// hits bounds what was asked for, so that sums stay exact.
func (a *Ask) hits() int64 {
	most := int64(maxExact)
	if a.how() == take {
		most = a.Limit.Capacity + 1
	}
	return min(max(a.Hits, 0), most)
}

func (a *Ask) how() charge {
	switch {
	case a.Mode == GiveBack:
		return giveBack
	case a.Mode == Forced || a.Limit.Overdraw || a.Counting != Precise && a.Limit.Algorithm.chargesDenied:
		return spend
	default:
		return take
	}
}

// asItStands keeps the verdict of a request that was not charged, and shows
// the key without it.
func (a *Ask) asItStands(s *State, now int64, verdict Decision) Decision {
	look := *s
	d := a.Limit.Algorithm.decide(a.Limit, &look, now, 0, take).as(verdict)
	if d.Outcome == Denied {
		d.Delay = 0
	}
	return d
}

// as gives a decision another's verdict.
func (d Decision) as(verdict Decision) Decision {
	d.Outcome, d.Never, d.RetryAfter = verdict.Outcome, verdict.Never, verdict.RetryAfter
	return d
}

// Expiry returns the instant, in microseconds since the epoch, from which a
// state equals one that was never seen; 0 if it does already.
func (l *Limit) Expiry(s *State) int64 { return l.Algorithm.expiry(l, s) }

// Denies reports whether one hit would be denied now.
func (l *Limit) Denies(s State, now int64) bool {
	l.Algorithm.repair(l, &s, now)
	return l.Algorithm.decide(l, &s, now, 1, take).Outcome == Denied
}
