//go:build !race

package calls_test

// soakRows is how many usage rows a soak looks at.
const soakRows = 1_000_000

// soakSettlements is how many settlements a soak searches.
const soakSettlements = 5_000_000
