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

// refusals are replies by which Redis says that it did not run a command.
var refusals = []struct {
	prefix string
	remedy remedy
	hint   string
}{
	{"NOSCRIPT", loadIt, ""},
	{"READONLY", sendAgain, "this server is a replica"},
	{"TRYAGAIN", waitABit, "a slot is being moved"},
	{"LOADING", giveUp, ""},
	{"MASTERDOWN", giveUp, ""},
	{"CLUSTERDOWN", giveUp, ""},
	{"MOVED", giveUp, "the Cluster's nodes do not agree who owns a slot"},
	{"ASK", giveUp, "the Cluster's nodes do not agree who owns a slot"},
	{"OOM", giveUp, "maxmemory is reached"},
	{"BUSY", giveUp, "another script runs too long"},
	{"MISCONF", giveUp, ""},
	{"NOREPLICAS", giveUp, ""},
	{"NOAUTH", giveUp, "a password is needed"},
	{"WRONGPASS", giveUp, ""},
	{"NOPERM", giveUp, rights},
	{"ERR The user executing the script can't run this command", giveUp, rights}, // so Redis 7.0 says NOPERM
	{"ERR max number of clients", giveUp, ""},
	{"ERR invalid password", giveUp, ""},
	{"ERR invalid DB index", giveUp, ""},
	{"ERR DB index", giveUp, ""},
}

// diagnose turns the error of a call into that of its decisions, and says what
// can be done.
func diagnose(err error) (error, remedy) {
	var reply redis.Error
	var op *net.OpError
	switch {
	case errors.As(err, &reply):
		return diagnoseReply(reply.Error())
	case errors.As(err, &op) && op.Op == "dial",
		errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted), errors.Is(err, redis.ErrClosed):
		return fmt.Errorf("%w: %w", ErrUnavailable, err), giveUp
	case isTimeout(err), errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %w", ErrTimeout, err), giveUp
	default:
		return fmt.Errorf("%w: %w", ErrLost, err), giveUp
	}
}

// diagnoseReply reads an error that Redis replied with. Before Redis 7 that of
// a command within a script stands behind others.
func diagnoseReply(text string) (error, remedy) {
	for _, r := range refusals {
		if strings.HasPrefix(text, r.prefix) || strings.Contains(text, ": -"+r.prefix+" ") {
			if r.hint != "" {
				text += " (" + r.hint + ")"
			}
			return fmt.Errorf("%w: redis: %s", ErrUnavailable, text), r.remedy
		}
	}
	// A script that failed half-way: what it wrote stays.
	return fmt.Errorf("%w: redis: %s", ErrLost, text), giveUp
}
