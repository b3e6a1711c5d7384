// Package archtest checks that the code keeps to its architecture.
//
// It holds tests only: which package may import which, what must be documented, how long a file or a function may be, and
// what must not be in the tree at all.
package archtest
