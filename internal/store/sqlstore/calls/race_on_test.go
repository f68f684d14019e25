//go:build race

package calls_test

// soakRows is how many usage rows a soak looks at. Under the race detector a million take half an hour.
const soakRows = 100_000

// soakSettlements is how many settlements a soak searches.
const soakSettlements = 500_000
