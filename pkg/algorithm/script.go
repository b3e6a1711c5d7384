package algorithm

import (
	_ "embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

//go:embed decide.lua
var decideLua string

//go:embed script.lua
var scriptLua string

// Script is the Lua source that decides a [Call] in Redis. It needs Redis 5 or
// later, reads the server's clock once, reads all keys before it writes any,
// and never fails for what a key holds.
var Script = script()

// script puts the parts together. What not every call needs is made by a
// function when it is.
func script() string {
	var b strings.Builder
	b.WriteString("local function make(kind)\n")
	for i, a := range All {
		fmt.Fprintf(&b, "if kind == %d then\n%s\nend\n", i+1, a.Lua)
	}
	fmt.Fprintf(&b, "end\n\nlocal function make_decide_group(now, limits, runs, states, logs, changed, told)\n%s\nend\n\n", decideLua)
	b.WriteString(scriptLua)
	return constantName.ReplaceAllStringFunc(b.String(), func(name string) string {
		if value, ok := scriptConstants[name]; ok {
			return value
		}
		return name
	})
}

var constantName = regexp.MustCompile(`\b[A-Z][A-Z_]+\b`)

// scriptConstants are put in where the Lua files name them, since a local
// variable costs whenever a function is made that uses it.
var scriptConstants = map[string]string{
	"TAKE":       decimal(take),
	"SPEND":      decimal(spend),
	"GIVE_BACK":  decimal(giveBack),
	"ALONE":      decimal(flagAlone),
	"NO_VETO":    decimal(flagNoVeto),
	"QUOTA":      decimal(flagQuota),
	"HELD":       decimal(flagHeld),
	"PLAIN":      decimal(flagPlain),
	"OVER":       decimal(flagOver),
	"JOINED":     decimal(flagJoined),
	"UNDECIDED":  decimal(codeUndecided),
	"FITS":       decimal(codeFits),
	"FITS_NOT":   decimal(codeFitsNot),
	"UNCHARGED":  decimal(codeUncharged),
	"CLOCK":      decimal(codeClock),
	"CALENDAR":   decimal(calendarKind),
	"MAX_EXACT":  decimal(maxExact),
	"HUGE":       decimal(hugeState),
	"STATE_SIZE": decimal(stateSize),
	"NEVER_SEEN": `"` + strings.Repeat(`\000`, stateSize) + `"`,
	"CORRUPT":    `"` + strings.Repeat(`\255`, stateSize) + `"`, // decodes to numbers that are too large
	"MANY":       "1000",                                        // a C function takes and returns only so many values at once
}

func decimal[N ~uint8 | ~int](n N) string { return strconv.Itoa(int(n)) }
