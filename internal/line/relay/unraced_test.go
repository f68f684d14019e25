//go:build !race

package relay

// raced is whether the race detector watches the tests.
const raced = false
