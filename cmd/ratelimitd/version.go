package main

import (
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is the version that the Go toolchain built, from the tag or the
// commit of the checkout; "devel" when it knew neither.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "devel"
	}
	return info.Main.Version
}

func versionText() string {
	return fmt.Sprintf("ratelimitd %s %s %s/%s\n", version(), runtime.Version(), runtime.GOOS, runtime.GOARCH)
}
