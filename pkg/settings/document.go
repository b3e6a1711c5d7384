package settings

import (
	"fmt"
	"strings"
)

// usage is the text of a setting's flag in --help.
func (s *Setting) usage() string {
	return fmt.Sprintf("%s\n%sIn the environment: %s.", s.Doc, s.allowedSentence(), s.Env())
}

// Sample is a settings file that sets everything to its default and says what
// it means.
func Sample() string {
	var b strings.Builder
	b.WriteString(`# The settings of ratelimitd, each at its default. Every one of them can also be set in the environment, which
# goes before this file, or by a flag, which goes before both: grpc_address here is RATELIMITD_GRPC_ADDRESS there,
# and --grpc-address on the command line. An unknown name or a value that is not allowed stops the start.
`)
	group := groupFile
	for _, row := range All() {
		if row.FileLess {
			continue
		}
		if row.Group != group {
			group = row.Group
			fmt.Fprintf(&b, "\n# ---- %s ----\n", group)
		}
		fmt.Fprintf(&b, "\n%s", wrap(row.Doc+" "+row.allowedSentence(), "# ", 118))
		value := row.Default
		if row.Kind() == "text" || row.Default == "" || row.Kind() == "secret" || row.Kind() == "address" || row.Kind() == "name" {
			value = fmt.Sprintf("%q", value)
		}
		fmt.Fprintf(&b, "%s: %s\n", row.Name, value)
	}
	return b.String()
}

// Reference is a page about all settings, in Markdown.
func Reference() string {
	var b strings.Builder
	b.WriteString(`# Settings

This page is made from the table in ` + "`pkg/settings/table.go`" + `.

A setting can stand in the settings file, in the environment, or on the command line; of these the last one wins. The setting
` + "`grpc_address`" + ` is ` + "`grpc_address: \":9081\"`" + ` in the file, ` + "`RATELIMITD_GRPC_ADDRESS=:9081`" + ` in the environment, and
` + "`--grpc-address=:9081`" + ` as a flag. An empty variable counts as one that is not set. An unknown name or a value that is not
allowed stops the start, with every fault in one message. Variables that Kubernetes injects for a Service called
ratelimitd, such as ` + "`RATELIMITD_PORT`" + ` and ` + "`RATELIMITD_SERVICE_HOST`" + `, are ignored.
`)
	group := ""
	for _, row := range All() {
		if row.Group != group {
			group = row.Group
			fmt.Fprintf(&b, "\n## %s\n\n| setting | default | meaning | allowed |\n| --- | --- | --- | --- |\n", group)
		}
		value := "none"
		if row.Default != "" {
			value = "`" + row.Default + "`"
		}
		names := "`" + row.Name + "`<br>"
		if row.FileLess {
			names = ""
		}
		fmt.Fprintf(&b, "| %s`%s`<br>`--%s` | %s | %s | %s |\n", names, row.Env(), row.Flag(), value, row.Doc, row.Allowed())
	}
	return b.String()
}

func (s *Setting) allowedSentence() string {
	if s.Kind() == "text" || s.Kind() == "secret" {
		return ""
	}
	return "Allowed: " + s.Allowed() + ". "
}

// wrap breaks a text into lines of at most width bytes, each begun by prefix.
func wrap(text, prefix string, width int) string {
	var b strings.Builder
	line := prefix
	for word := range strings.FieldsSeq(text) {
		if len(line)+len(word) > width {
			b.WriteString(strings.TrimRight(line, " ") + "\n")
			line = prefix
		}
		line += word + " "
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
	return b.String()
}
