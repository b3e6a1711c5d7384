package docs

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const (
	alertsFile    = "deploy/monitoring/alerts.yaml"
	dashboardFile = "deploy/monitoring/dashboard.json"
	alertsHead    = "| alert | expression | what it means |\n| --- | --- | --- |\n"
)

// alertsTop is the beginning of the file of alerts.
const alertsTop = `# The alerts of docs/operations.md, as rules for Prometheus:
#   rule_files: [alerts.yaml]
# Made from that page by: go test ./integration/docs -run TestAlerts -update
groups:
  - name: ratelimitd
    rules:
`

var (
	alertRow   = regexp.MustCompile("^\\| (.+?) \\| `(.+?)`(?: for (\\d+) m)? \\| (.+) \\|$")
	pageLink   = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)
	wordStart  = regexp.MustCompile(`\b\w`)
	notALetter = regexp.MustCompile(`[^A-Za-z]`)
)

// TestAlerts wants the file of alerts to say what the table of the page says. -update writes it anew.
func TestAlerts(t *testing.T) {
	want := alertsTop
	for i, row := range tableRows(t, alertsHead) {
		found := alertRow.FindStringSubmatch(row)
		if found == nil {
			t.Fatalf("this row is not: name, expression, perhaps the minutes it must hold for, and what it means:\n%s", row)
		}
		known(t, metricsPage, found[2])
		want += alertRule(found[1], found[2], found[3], found[4], i == 0)
	}
	path := filepath.Join(root, alertsFile)
	got, err := os.ReadFile(path)
	if err == nil && string(got) == want {
		return
	}
	if !*update {
		t.Fatalf("%s does not say what the table of %s says (%v); go test ./integration/docs -run TestAlerts -update. It would be\n%s",
			alertsFile, metricsPage, err, want)
	}
	if err := os.WriteFile(path, []byte(want), 0o600); err != nil {
		t.Fatal(err)
	}
}

// alertRule is a row of the table as a rule of Prometheus. Texts of YAML in single quotes have no escapes but ”.
func alertRule(title, expr, minutes, meaning string, page bool) string {
	quote := func(text string) string { return "'" + strings.ReplaceAll(text, "'", "''") + "'" }
	name := notALetter.ReplaceAllString(wordStart.ReplaceAllStringFunc(strings.ReplaceAll(title, "'", ""), strings.ToUpper), "")
	rule := fmt.Sprintf("      - alert: Ratelimitd%s\n        expr: %s\n", name, quote(expr))
	if minutes != "" {
		rule += "        for: " + minutes + "m\n"
	}
	severity := "ticket"
	if page {
		severity = "page"
	}
	meaning = strings.ReplaceAll(pageLink.ReplaceAllString(meaning, "$1"), "`", "")
	rule += "        labels: {severity: " + severity + "}\n"
	return rule + fmt.Sprintf("        annotations:\n          summary: %s\n          description: %s\n", quote(title), quote(meaning))
}

// tableRows returns the rows of the table of the page about running that begins with head.
func tableRows(t *testing.T, head string) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, metricsPage))
	if err != nil {
		t.Fatal(err)
	}
	_, table, found := strings.Cut(string(text), head)
	if !found {
		t.Fatalf("%s has no table that begins with\n%s", metricsPage, head)
	}
	table, _, _ = strings.Cut(table, "\n\n")
	return strings.Split(strings.TrimSpace(table), "\n")
}

// TestDashboard wants each expression of the dashboard to have metrics and labels that there are, and the dashboard to show
// what an operator looks for.
func TestDashboard(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, dashboardFile))
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int
			Title   string
			Targets []struct{ Expr string }
		}
		Templating struct {
			List []struct{ Name, Type string }
		}
	}
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatal(err)
	}
	ids, variables, all := map[int]bool{}, map[string]bool{}, ""
	for _, v := range board.Templating.List {
		variables[v.Name] = true
	}
	for _, panel := range board.Panels {
		if ids[panel.ID] {
			t.Errorf("two panels have the id %d", panel.ID)
		}
		ids[panel.ID] = true
		for _, target := range panel.Targets {
			known(t, dashboardFile+", "+panel.Title, target.Expr)
			all += target.Expr + "\n"
		}
	}
	for _, found := range grafanaName.FindAllStringSubmatch(string(text), -1) {
		if !variables[found[1]] && !strings.HasPrefix(found[1], "__") { // those are Grafana's own
			t.Errorf("the dashboard has no variable %s", found[1])
		}
	}
	for _, name := range []string{
		"within_limit", "near_limit", "over_limit", "shadow_over_limit",
		"ratelimitd_request_duration_seconds", "ratelimitd_store_duration_seconds",
		"ratelimitd_store_errors_total", "ratelimitd_store_degraded_total", "ratelimitd_shed_total",
		"ratelimitd_redis_breakers_open", "ratelimitd_memcached_breakers_open",
		"ratelimitd_config_loads_total", "ratelimitd_config_info",
	} {
		if !strings.Contains(all, name) {
			t.Errorf("the dashboard does not show %s", name)
		}
	}
}

var (
	selector      = regexp.MustCompile(`\b(ratelimitd_[a-z_]+)(?:\{([^}]*)\})?`)
	grafanaName   = regexp.MustCompile(`\$\{?(\w+)`)
	matcher       = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	histogramPart = regexp.MustCompile(`_(bucket|sum|count)$`)
	aggregated    = regexp.MustCompile(`\b(?:by|without|on|ignoring) \(([^)]*)\)`)
)

// known wants the metrics of an expression of PromQL to exist, with the labels by which they are chosen and added up, and with the
// values where these are few.
func known(t *testing.T, where, expr string) {
	t.Helper()
	told, theirs := toldLabels(t), map[string]bool{"le": true, "job": true, "instance": true}
	for _, found := range selector.FindAllStringSubmatch(expr, -1) {
		labels, is := told[found[1]]
		if !is {
			labels, is = told[histogramPart.ReplaceAllString(found[1], "")]
		}
		if !is {
			t.Errorf("%s: there is no metric %s", where, found[1])
		}
		for label := range labels {
			theirs[label] = true
		}
		for _, m := range matcher.FindAllStringSubmatch(found[2], -1) {
			values, has := labels[m[1]]
			if !has && m[1] != "job" && m[1] != "instance" {
				t.Errorf("%s: %s has no label %s", where, found[1], m[1])
			}
			for value := range strings.SplitSeq(m[3], "|") {
				if len(values) > 0 && !slices.Contains(values, value) {
					t.Errorf("%s: the label %s of %s is never %s", where, m[1], found[1], value)
				}
			}
		}
	}
	for _, found := range aggregated.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(found[1], ",") {
			if !theirs[strings.TrimSpace(label)] {
				t.Errorf("%s: no metric of it has the label %s; they have %v", where, label, slices.Sorted(maps.Keys(theirs)))
			}
		}
	}
}

// toldLabels returns the labels of each metric in the table, which TestMetricsTable compares with running programs, and the values
// of those that have few.
func toldLabels(t *testing.T) map[string]map[string][]string {
	t.Helper()
	all := map[string]map[string][]string{}
	for _, row := range tableRows(t, metricsHead) {
		cells := strings.Split(row, " | ")
		labels := map[string][]string{}
		for cell := range strings.SplitSeq(strings.Trim(cells[2], " |"), "<br>") {
			name, values, _ := strings.Cut(cell, ":")
			if name = strings.Trim(name, "` "); name == "" {
				continue
			}
			labels[name] = nil
			if values != "" {
				labels[name] = strings.Split(strings.TrimSpace(values), ", ")
			}
		}
		all[metric.FindString(row)] = labels
	}
	return all
}
