//go:build race

package clone_test

// raced is for tests that limit the memory of a clone: the race detector takes several times as much.
const raced = true
