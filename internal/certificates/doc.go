// Package certificates reads certificates and authorities from PEM files, again
// for each connection, and keeps the last good ones while the files are bad.
package certificates
