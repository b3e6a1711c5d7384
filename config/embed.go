// Package config holds the samples that the program starts with when it is
// told nothing else.
package config

import (
	"embed"
	"io/fs"
)

//go:embed policies
var samples embed.FS

// Policies returns the sample policy files, all of which are in force
// together. What Envoy sends to each stands in the file of the same name in
// the folder envoy.
func Policies() fs.FS {
	sub, err := fs.Sub(samples, "policies")
	if err != nil {
		panic(err) // only for a name that is not valid, and this one is
	}
	return sub
}
