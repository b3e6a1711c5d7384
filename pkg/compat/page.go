package compat

import (
	"fmt"
	"strings"
)

// Page is a page about what is the same as envoyproxy/ratelimit and what is not,
// in Markdown.
func Page() string {
	var b strings.Builder
	b.WriteString(`# In the place of envoyproxy/ratelimit

This page is made from the tables in ` + "`pkg/compat`" + `.

The program stands in the place of envoyproxy/ratelimit when it is started under the name ` + "`ratelimit`" + `, or as
` + "`ratelimitd --compat`" + `: it reads that program's environment and directories, and counts as that does. Everything that is not
listed as better, ignored or refused is the same. How to change over: [migrating.md](migrating.md).

| | |
| --- | --- |
| same | means what it means there |
| better | means the same, without a fault |
| ignored | is read and changes nothing; where it is a variable that is set, the log says so once, with the reason |
| refused | stops the start for some values, with a message |

## Behaviour
`)
	area := ""
	for _, d := range Differences() {
		if d.Area != area {
			area = d.Area
			fmt.Fprintf(&b, "\n### %s\n\n| there | here | |\n| --- | --- | --- |\n", area)
		}
		fmt.Fprintf(&b, "| %s | %s | %s |\n", d.What, d.Fate, d.How)
	}
	b.WriteString("\n## Variables\n")
	group := ""
	for _, row := range All() {
		if row.Group != group {
			group = row.Group
			fmt.Fprintf(&b, "\n### %s\n\n| variable | default | meaning | here | |\n| --- | --- | --- | --- | --- |\n", "Variables: "+lower(group))
		}
		value := "none"
		if row.Default != "" {
			value = "`" + row.Default + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", row.Name, value, row.Doc, row.Fate, row.How)
	}
	return b.String()
}

// lower begins a heading in the middle of one, unless it is a name.
func lower(text string) string {
	if strings.HasPrefix(text, "Redis") || strings.HasPrefix(text, "Memcached") {
		return text
	}
	return strings.ToLower(text[:1]) + text[1:]
}
