//go:build !race

package app_test

// raced reports whether the race detector watches.
const raced = false
