//go:build race

package relay

// raced is whether the race detector watches the tests. It drops at random what is put into a sync.Pool.
const raced = true
