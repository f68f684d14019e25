//go:build !race

package redisledger

// raced reports whether the race detector watches.
const raced = false
