package web

import (
	"fmt"
	"html"
	"net/http"
	"slices"
	"strings"
)

// Page is one of the admin pages.
type Page struct {
	Path  string
	About string // what it shows
	Show  http.HandlerFunc

	// Large says that it has all rules: few of these are made at a time.
	Large bool
}

// front lists the pages for a browser.
func front(pages []Page) http.HandlerFunc {
	var b strings.Builder
	b.WriteString("<!DOCTYPE html><title>ratelimitd</title><h1>ratelimitd</h1><ul>\n")
	for _, page := range pages {
		fmt.Fprintf(&b, "<li><a href=%q>%s</a>: %s\n", page.Path, page.Path, html.EscapeString(page.About))
	}
	b.WriteString("</ul>\n")
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(b.String()))
	}
}

// List shows the pages one a line, as envoyproxy/ratelimit does.
func List(pages []Page) http.HandlerFunc {
	sorted := slices.SortedFunc(slices.Values(pages), func(a, b Page) int { return strings.Compare(a.Path, b.Path) })
	var b strings.Builder
	b.WriteString("/: this list\n")
	for _, page := range sorted {
		b.WriteString(page.Path + ": " + page.About + "\n")
	}
	return func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, b.String()) }
}
