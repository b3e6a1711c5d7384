// Package docs tests the documentation: it runs the commands of its pages and checks their examples.
//
// It holds tests only. docs/README.md says how a page is written for it. `make tools` fetches what commands need first.
package docs
