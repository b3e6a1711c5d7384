package web

import (
	"fmt"
	"net/http"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/ratelimitd/ratelimitd/pkg/algorithm"
	"github.com/ratelimitd/ratelimitd/pkg/descriptors"
)

// The rules as programs read them. Names are those of the policy files.
type (
	rulesView struct {
		Revision string       `json:"revision"`
		Since    time.Time    `json:"in_force_since"`
		Domains  []domainView `json:"domains"`
	}
	domainView struct {
		Domain   string     `json:"domain"`
		Counting string     `json:"counting"`
		Rules    []ruleView `json:"rules"`
	}
	ruleView struct {
		Path      []pathView  `json:"path"`
		Unlimited bool        `json:"unlimited,omitempty"`
		Replaces  []string    `json:"replaces,omitempty"`
		Limits    []limitView `json:"limits,omitempty"`
		File      string      `json:"file"`
		Line      int         `json:"line,omitempty"` // 0: not from a text
	}
	pathView struct {
		Key            string `json:"key"`
		Value          string `json:"value,omitempty"`
		ShareThreshold bool   `json:"share_threshold,omitempty"`
	}
	limitView struct {
		ID           string `json:"id"`
		Name         string `json:"name,omitempty"`
		Algorithm    string `json:"algorithm"`
		Requests     int64  `json:"requests"`
		Window       string `json:"window"`
		Calendar     bool   `json:"calendar,omitempty"`
		TimeZone     string `json:"time_zone,omitempty"`
		Capacity     int64  `json:"capacity"`
		Overdraw     bool   `json:"overdraw,omitempty"`
		Shadow       bool   `json:"shadow_mode,omitempty"`
		Quota        bool   `json:"quota_mode,omitempty"`
		OnStoreError string `json:"on_store_error"`
		Priority     string `json:"priority"`
		Region       string `json:"region,omitempty"`
	}
)

func viewRules(p Policies) rulesView {
	view := rulesView{Revision: p.Rules.Revision(), Since: p.Since, Domains: []domainView{}}
	for _, domain := range p.Rules.Domains() {
		d := domainView{Domain: domain.Name, Counting: domain.Counting.String(), Rules: []ruleView{}}
		for _, rule := range domain.Rules() {
			d.Rules = append(d.Rules, viewRule(rule))
		}
		view.Domains = append(view.Domains, d)
	}
	return view
}

func viewRule(rule *descriptors.Rule) ruleView {
	view := ruleView{Unlimited: rule.Unlimited, Replaces: rule.Replaces, File: rule.File, Line: rule.Line}
	for _, entry := range rule.Path {
		view.Path = append(view.Path, pathView{entry.Key, entry.Value, entry.Share})
	}
	for _, limit := range rule.Limits {
		l := limitView{
			ID: limit.ID, Name: limit.Name, Algorithm: limit.Limit.Algorithm.Name, Requests: limit.Limit.Requests,
			Window: shortDuration(limit.Limit.Window), Capacity: limit.Limit.Capacity, Overdraw: limit.Limit.Overdraw,
			Shadow: limit.Shadow, Quota: limit.Quota, OnStoreError: limit.OnStoreError.String(), Priority: limit.Priority.String(), Region: limit.Region,
		}
		if calendar := limit.Limit.Calendar; calendar != nil {
			l.Calendar, l.TimeZone = true, "UTC"
			if calendar.Zone != nil {
				l.TimeZone = calendar.Zone.String()
			}
		}
		view.Limits = append(view.Limits, l)
	}
	return view
}

func (o *AdminOptions) rulesJSON(w http.ResponseWriter, _ *http.Request) {
	p := o.Policies()
	if p.Rules == nil {
		refuse(w, http.StatusServiceUnavailable, "no rules are in force")
		return
	}
	writeJSON(w, viewRules(p))
}

// rules shows one limit a line, and above them what is wrong with newer files.
func (o *AdminOptions) rules(w http.ResponseWriter, _ *http.Request) {
	p := o.Policies()
	var b strings.Builder
	if p.Err != nil {
		fmt.Fprintf(&b, "THE NEWEST POLICIES ARE NOT IN FORCE, since %s:\n%v\n\n", p.Failed.UTC().Format(time.RFC3339), p.Err)
	}
	if p.Rules == nil {
		writeText(w, http.StatusServiceUnavailable, b.String()+"no rules are in force\n")
		return
	}
	view := viewRules(p)
	fmt.Fprintf(&b, "revision %s, in force since %s\n", view.Revision, view.Since.UTC().Format(time.RFC3339))
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, domain := range view.Domains {
		fmt.Fprintf(table, "\ndomain %s, counting %s\n", printable(domain.Domain), domain.Counting)
		for i, rule := range domain.Rules {
			where := rule.place()
			for _, limit := range rule.Limits {
				fmt.Fprintf(table, "  %s\t%s\t%s\n", rule.path(), limit.text(), where)
			}
			if len(rule.Limits) == 0 {
				isInner := i+1 < len(domain.Rules) && len(domain.Rules[i+1].Path) > len(rule.Path)
				fmt.Fprintf(table, "  %s\t%s\t%s\n", rule.path(), rule.withoutLimits(isInner), where)
			}
		}
	}
	_ = table.Flush()
	writeText(w, http.StatusOK, b.String())
}

// withoutLimits says what a rule without limits is for. An inner one has rules
// below it, which its descriptors meet when they go on as those do.
func (r *ruleView) withoutLimits(isInner bool) string {
	switch {
	case r.Unlimited:
		return "unlimited"
	case isInner:
		return "no limit of its own"
	}
	return "no limit"
}

// place is where a rule is written.
func (r *ruleView) place() string {
	if r.Line == 0 {
		return printable(r.File)
	}
	return fmt.Sprintf("%s:%d", printable(r.File), r.Line)
}

// path is a rule's path on one line.
func (r *ruleView) path() string {
	parts := make([]string, len(r.Path))
	for i, entry := range r.Path {
		parts[i] = entry.Key
		if entry.Value != "" {
			parts[i] += "=" + entry.Value
		}
	}
	return printable(strings.Join(parts, " / "))
}

// text is a limit on one line.
func (l *limitView) text() string {
	words := []string{fmt.Sprintf("%d per %s", l.Requests, l.Window), l.Algorithm}
	for _, is := range [...]struct {
		so   bool
		word string
	}{
		{l.Capacity != l.Requests, fmt.Sprintf("burst %d", l.Capacity)},
		{l.Calendar, "calendar of " + l.TimeZone},
		{l.Overdraw, "overdraw"},
		{l.Shadow, "shadow"},
		{l.Quota, "quota"},
		{l.OnStoreError != algorithm.FailError.String(), "on store error " + l.OnStoreError},
		{l.Priority != algorithm.PriorityDefault.String(), l.Priority},
		{l.Region != "", "region " + printable(l.Region)},
		{l.Name != "", "named " + printable(l.Name)},
	} {
		if is.so {
			words = append(words, is.word)
		}
	}
	return strings.Join(words, ", ")
}

// printable keeps a text on its line, and what steers a terminal out of it.
func printable(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsPrint(r) {
			return r
		}
		return '?'
	}, text)
}

// shortDuration is 1m rather than 1m0s.
func shortDuration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
