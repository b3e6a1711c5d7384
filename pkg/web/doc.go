// Package web answers over HTTP: /json, health and metrics for everybody, and
// the admin pages for those on this machine.
package web
