//go:build !race

package clone_test

const raced = false
