//go:build race

package clone_test

// raced is for tests of how much memory a clone takes: the race detector takes several
// times as much.
const raced = true
