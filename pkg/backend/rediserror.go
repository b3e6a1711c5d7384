package backend

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// remedy is what can be done about a failed call.
type remedy uint8

const (
	giveUp    remedy = iota // nothing that is safe, or nothing that helps
	loadIt                  // it did not run: send the script's text along
	sendAgain               // it did not run: another connection may reach the right server
	waitABit                // it did not run: the server asks to try again
)

// rights are what a user of Redis must be allowed.
const rights = "the user needs EVALSHA, EVAL, SCRIPT, TIME, and on all keys MGET, EXISTS, TYPE, SET, SETRANGE, DEL, PEXPIRE, LLEN, LINDEX, LTRIM and RPUSH"

// diagnosis is what the error of a call means.
type diagnosis struct {
	err      error // for its decisions
	remedy   remedy
	innocent bool // it says nothing of the server's health
}

// refusals are replies by which Redis says that it did not run a command.
var refusals = []struct {
	prefix   string
	remedy   remedy
	hint     string
	innocent bool
}{
	{"NOSCRIPT", loadIt, "", true},
	{"READONLY", sendAgain, "this server is a replica", false},
	{"TRYAGAIN", waitABit, "a slot is being moved", true},
	{"LOADING", giveUp, "", false},
	{"MASTERDOWN", giveUp, "", false},
	{"CLUSTERDOWN Hash slot not served", giveUp, "no node has the slot", true},
	{"CLUSTERDOWN", giveUp, "", false},
	{"MOVED", giveUp, "the Cluster's nodes do not agree who owns a slot", true},
	{"ASK", giveUp, "the Cluster's nodes do not agree who owns a slot", true},
	{"OOM", giveUp, "maxmemory is reached", false},
	{"BUSY", giveUp, "another script runs too long", false},
	{"UNKILLABLE", giveUp, "another script runs too long", false},
	{"MISCONF", giveUp, "", false},
	{"NOREPLICAS", giveUp, "", false},
	{"NOAUTH", giveUp, "a password is needed", false},
	{"WRONGPASS", giveUp, "", false},
	{"NOPERM", giveUp, rights, false},
	{"ERR The user executing the script can't run this command", giveUp, rights, false}, // so Redis 7.0 says NOPERM
	{"ERR unknown command", giveUp, rights, false},
	{"ERR max number of clients", giveUp, "", false},
	{"DENIED", giveUp, "", false},
	{"ERR AUTH", giveUp, "no password is set there", false},
	{"ERR Client sent AUTH", giveUp, "no password is set there", false}, // before Redis 6
	{"ERR invalid password", giveUp, "", false},
	{"ERR invalid DB index", giveUp, "", false},
	{"ERR DB index", giveUp, "", false},
}

// diagnose turns the error of a call into that of its decisions, and says what
// can be done and whether the server is to blame.
func diagnose(err error) diagnosis {
	var reply redis.Error
	var op *net.OpError
	switch {
	case errors.As(err, &reply):
		return diagnoseReply(reply.Error())
	case errors.Is(err, redis.ErrClosed):
		return diagnosis{err: fmt.Errorf("%w: %w", ErrUnavailable, err), innocent: true}
	case errors.As(err, &op) && op.Op == "dial", errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		return diagnosis{err: fmt.Errorf("%w: %w", ErrUnavailable, err)}
	case isTimeout(err), errors.Is(err, context.Canceled):
		return diagnosis{err: fmt.Errorf("%w: %w", ErrTimeout, err)}
	default:
		return diagnosis{err: fmt.Errorf("%w: %w", ErrLost, err)}
	}
}

// diagnoseReply reads an error that Redis replied with. Before Redis 7 that of
// a command within a script stands behind others.
func diagnoseReply(text string) diagnosis {
	text, _, _ = strings.Cut(text, repeats) // keys are for no log
	for _, r := range refusals {
		if strings.HasPrefix(text, r.prefix) || strings.Contains(text, ": -"+r.prefix+" ") {
			if r.hint != "" {
				text += " (" + r.hint + ")"
			}
			return diagnosis{fmt.Errorf("%w: redis: %s", ErrUnavailable, text), r.remedy, r.innocent}
		}
	}
	// A script that failed half-way: what it wrote stays.
	return diagnosis{err: fmt.Errorf("%w: redis: %s", ErrLost, text), innocent: true}
}

// verdict is what calls say of their server: nil, errNoVerdict, or why it
// fails. One that answers any of them is well.
func verdict(calls []*scriptCall) error {
	worst := errNoVerdict
	for _, c := range calls {
		if c.err == nil {
			return nil
		}
		if !c.innocent {
			worst = c.err
		}
	}
	return worst
}
