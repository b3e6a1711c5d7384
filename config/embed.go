// Package config holds the samples that the program starts with when it is
// told nothing else.
package config

import (
	"embed"
	"io/fs"
)

//go:embed policies/*.yaml
var samples embed.FS

// Policies returns the sample policy files.
func Policies() fs.FS {
	sub, err := fs.Sub(samples, "policies")
	if err != nil {
		panic(err) // only for a name that is not valid, and this one is
	}
	return sub
}
